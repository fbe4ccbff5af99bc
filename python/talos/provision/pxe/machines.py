"""The machines that boot from the server, and how far each is: from the lines that the server prints."""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from talos.upgrade.slots.systemd_boot.entry import NETWORK_IMAGE

MAX_MACHINES = 500
MAX_STEPS = 30
"""Of a machine; the oldest ones are left out."""
STAGES = (
    (re.compile(r"has address "), "has an address"),
    (re.compile(r"(?:is sent to|has loaded) \S+\.k?(?:pxe|efi)"), "loads iPXE"),
    (re.compile(r"runs (?:the|its own) script"), "runs the script"),
    (re.compile(r"has loaded vmlinuz"), "has the kernel"),
    (re.compile(rf"has loaded (?:initramfs|{re.escape(NETWORK_IMAGE)})"), "boots the system"),
    (re.compile(r"has loaded \S+\.yaml"), "has its config"),
)
"""How far a machine is, in this order."""

_LINE = re.compile(r"(?P<who>(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|[0-9]+(?:\.[0-9]+){3}): (?P<text>.+)")
_ADDRESS = re.compile(r"has address (?P<ip>[0-9.]+)")
_IDENTITY = re.compile(r"is (?P<names>(?:mac|uuid|serial|hostname)=.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine. ``stage`` counts those of `STAGES` that it has reached; ``steps`` have seconds and texts."""

    mac: str = ""
    ip: str = ""
    names: str = ""
    stage: int = 0
    steps: tuple[tuple[float, str], ...] = ()


@dataclass(slots=True)
class Machines:
    """The machines that were seen; used in several threads."""

    _by_name: dict[str, Machine] = field(default_factory=dict[str, Machine])
    """By MAC address, or by IP address when nothing else is known."""
    _macs: dict[str, str] = field(default_factory=dict[str, str])
    """By IP address."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, line: str, now: float) -> None:
        """Add a line to its machine; a line of none is left out. ``now`` is in seconds of the epoch."""
        match = _LINE.fullmatch(line)
        if not match:
            return
        with self._lock:
            self._record(match["who"], match["text"], now)

    def list_all(self) -> Sequence[Machine]:
        """The machines, whatever happened last first."""
        with self._lock:
            return sorted(self._by_name.values(), key=lambda one: one.steps[-1][0], reverse=True)

    def _record(self, who: str, text: str, now: float) -> None:
        is_mac = ":" in who
        given = _ADDRESS.match(text)
        if is_mac and given:
            self._macs = {ip: mac for ip, mac in self._macs.items() if mac != who} | {given["ip"]: who}
        name = who if is_mac else self._macs.get(who, who)
        # The one that was seen last is the last to be forgotten.
        found = self._by_name.pop(name, Machine(mac=name if ":" in name else ""))
        found = replace(found, ip=given["ip"] if given else found.ip if is_mac else who)
        if identity := _IDENTITY.match(text):
            found = replace(found, names=identity["names"])
        stages = [number for number, (pattern, _) in enumerate(STAGES, 1) if pattern.match(text)]
        # With an address it begins anew.
        stage = stages[0] if stages == [1] else max([found.stage, *stages])
        steps = (*found.steps, (now, text))[-MAX_STEPS:]
        self._by_name[name] = replace(found, stage=stage, steps=steps)
        while len(self._by_name) > MAX_MACHINES:
            forgotten = next(iter(self._by_name))
            self._by_name.pop(forgotten)
            self._macs = {ip: mac for ip, mac in self._macs.items() if mac != forgotten}
