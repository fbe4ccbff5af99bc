"""The network that a test's machines share: a QEMU without a machine whose hub they plug into.

It works where there is loopback only, as in a build sandbox, and unlike with multicast
a sender doesn't receive its own packets.
"""

from pathlib import Path

from driver.process import end_process, start_process
from driver.programs import Programs
from driver.qmp import Qmp


def hub_arguments(sockets: list[Path], qmp: Path) -> list[str]:
    """The arguments of a QEMU that joins everything that connects to these sockets."""
    argv = ["-machine", "none", "-nodefaults", "-display", "none", "-qmp", f"unix:{qmp},server=on,wait=off"]
    for place, path in enumerate(sockets):
        argv += ["-netdev", f"stream,id=s{place},server=on,addr.type=unix,addr.path={path}"]
        argv += ["-netdev", f"hubport,id=p{place},hubid=0,netdev=s{place}"]
    return argv


class Hub:
    """A running hub. A machine is blocked by taking its link down on its own side."""

    def __init__(self, programs: Programs, folder: Path, names: list[str]) -> None:
        """Start it, with one socket per machine."""
        self.sockets = {name: folder / f"{name}.lan" for name in names}
        qmp = folder / "hub.qmp"
        self._process = start_process(
            [*programs.qemu, *hub_arguments(list(self.sockets.values()), qmp)], log=folder / "hub.log"
        )
        Qmp(qmp).close()  # it listens on everything by the time it answers here

    def close(self) -> None:
        """End it."""
        end_process(self._process)
