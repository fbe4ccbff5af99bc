"""The network that a test's machines share: a QEMU without a machine whose hub they plug into.

It works where there is loopback only, as in a build sandbox, and unlike with multicast
a sender doesn't receive its own packets. Where the network leads to the test, a switch is between the
machines and the hub, which has the way out alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.process import end_process, start_process
from driver.programs import Programs
from driver.qmp import Qmp
from driver.switch import Switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A port on loopback that leads to a port of a machine on this network."""

    port: int
    address: str
    target: int


def hub_arguments(
    sockets: Sequence[Path], qmp: Path, forwards: Sequence[Forward] = (), options: Sequence[str] = ()
) -> list[str]:
    """The arguments of a QEMU that joins everything that connects to these sockets.

    With ``forwards`` the network also leads to the test, by QEMU's user network with these ``options``.
    """
    argv = ["-machine", "none", "-nodefaults", "-display", "none", "-qmp", f"unix:{qmp},server=on,wait=off"]
    for place, path in enumerate(sockets):
        argv += ["-netdev", f"stream,id=s{place},server=on,addr.type=unix,addr.path={path}"]
        argv += ["-netdev", f"hubport,id=p{place},hubid=0,netdev=s{place}"]
    if forwards:
        words = [f"hostfwd=tcp:127.0.0.1:{one.port}-{one.address}:{one.target}" for one in forwards]
        argv += ["-netdev", ",".join(("user", "id=out", *words, *options))]
        argv += ["-netdev", "hubport,id=pout,hubid=0,netdev=out"]
    return argv


class Hub:
    """A running hub. A machine is blocked by taking its link down on its own side."""

    def __init__(
        self, programs: Programs, folder: Path, names: Sequence[str], forwards: Sequence[Forward] = ()
    ) -> None:
        """Start it, with one socket per machine."""
        self.sockets = {name: folder / f"{name}.lan" for name in names}
        self._programs, self._folder, self._forwards = programs, folder, forwards
        self._switch: Switch | None = None
        self._start()

    def _start(self, options: Sequence[str] = ()) -> None:
        qmp = self._folder / "hub.qmp"
        qmp.unlink(missing_ok=True)
        machines, outside = list(self.sockets.values()), self._folder / "outside.lan"
        argv = hub_arguments([outside] if self._forwards else machines, qmp, self._forwards, options)
        self._process = start_process([*self._programs.qemu, *argv], log=self._folder / "hub.log")
        Qmp(qmp).close()  # it listens on everything by the time it answers here
        if self._forwards:
            self._switch = Switch(machines, outside)

    def restart(self, *options: str) -> None:
        """Start it anew with options of the user network, such as ``bootfile=...``; no machine is on."""
        self.close()
        for path in (*self.sockets.values(), self._folder / "outside.lan"):
            path.unlink(missing_ok=True)
        self._start(options)

    def close(self) -> None:
        """End it."""
        if self._switch is not None:
            self._switch.close()
            self._switch = None
        end_process(self._process)
