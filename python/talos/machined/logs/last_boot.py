"""How the boot before this one ended, by what the kernel and the watchdog kept of it."""

import re
from dataclasses import dataclass
from pathlib import Path

from talos.system.logging import make_printable
from talos.system.pstore import CONSOLE, PSTORE, join_dump, read_records
from talos.system.watchdog import DEVICES, has_reset

MAX_LOG = 512 * 1024
"""Bytes kept of the kernel's log, the newest."""
MAX_CAUSE = 300
"""Characters."""
_PANIC = re.compile(rb"Kernel panic - not syncing: ([^\n]*)")
_EARLY = re.compile(rb"(?:\[talos\] \[initramfs\] |device-mapper: (?=verity: \d+:\d+: ))([^\n]*)")
"""What explains a panic: a line of early init, or the kernel's about a corrupt block of a device, 7:0."""
_FATAL, _REBOOTING = b"[talos] fatal: ", b"[talos] rebooting in "
"""Around the reason for which PID 1 gave up; its last line is the shortest."""
_SOFT_WATCHDOG = b"softdog: Initiating system reboot"
_ORDERLY = re.compile(rb"reboot: (?:Restarting system|Power down|System halted)")
_LAST = 8 * 1024
"""Bytes at the end of a log, in which the kernel logs that it restarts."""
_TRIAL = re.compile(rb"Kernel command line: [^\n]{0,4096} talos\.trial(?=[ \n])")
_LEVEL = re.compile(rb"(?m)^(?:<\d{1,3}>)?\[ *\d+\.\d+\] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBoot:
    """``log`` is the kernel's, as far as it was kept. ``cause`` is one printable line, empty without one.

    ``is_orderly``: its log ends with a restart; ``was_trial``: it is that of a system booted once.
    """

    log: bytes = b""
    cause: str = ""
    is_orderly: bool = False
    was_trial: bool = False


def read_last_boot(folder: Path = PSTORE, watchdogs: Path = DEVICES) -> LastBoot:
    """Read what was kept; empty where nothing was."""
    records = read_records(folder)
    console = b"".join(record.data for record in records if record.kind == CONSOLE)
    return make_last_boot(console, join_dump(records), was_reset=has_reset(watchdogs))


def make_last_boot(console: bytes, dump: bytes, *, was_reset: bool) -> LastBoot:
    """Find out how it ended. ``dump`` is the last panic's text, ``was_reset`` the answer of the watchdogs."""
    log = (console or dump)[-MAX_LOG:]
    is_orderly = _ORDERLY.search(console[-_LAST:]) is not None
    cause = find_cause(log)
    if not cause and (was_reset or _SOFT_WATCHDOG in console[-_LAST:]):
        cause = "it hung, and the watchdog reset the machine"
    return LastBoot(log=log, cause=cause, is_orderly=is_orderly, was_trial=_TRIAL.search(console) is not None)


def find_cause(log: bytes) -> str:
    """Why the kernel or PID 1 gave up, by the kernel's log; empty when neither did."""
    text = _LEVEL.sub(b"", log)
    if panics := _PANIC.findall(text):
        early = _EARLY.findall(text)
        what = f"kernel panic: {show(panics[-1])}"
        return f"{what}, after: {show(early[-1])}" if early else what
    end = text.rfind(_REBOOTING)
    if (begin := text.rfind(_FATAL, 0, max(0, end))) >= 0:
        reason = text[begin + len(_FATAL) : end].strip().splitlines() or [b"unknown"]
        return f"PID 1 failed: {show(reason[-1])}"
    return ""


def show(line: bytes) -> str:
    """A line as something that any terminal may get."""
    text = line.decode("ascii", "replace").replace("\ufffd", "?")
    return make_printable(text)[:MAX_CAUSE]
