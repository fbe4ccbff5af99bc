"""The network that a test's machines share: a QEMU without a machine whose hub they plug into.

It works where there is loopback only, as in a build sandbox, and unlike multicast nobody hears himself.
"""

from pathlib import Path

from driver.process import end_process, start_process
from driver.programs import Programs
from driver.qmp import Qmp


def hub_words(sockets: list[Path], qmp: Path) -> list[str]:
    """The words of a QEMU that joins everything that connects to these sockets."""
    words = ["-machine", "none", "-nodefaults", "-display", "none", "-qmp", f"unix:{qmp},server=on,wait=off"]
    for place, path in enumerate(sockets):
        words += ["-netdev", f"stream,id=s{place},server=on,addr.type=unix,addr.path={path}"]
        words += ["-netdev", f"hubport,id=p{place},hubid=0,netdev=s{place}"]
    return words


class Hub:
    """A running hub. A machine is blocked by taking its link down on its own side."""

    def __init__(self, programs: Programs, folder: Path, names: list[str]) -> None:
        """Start it, with one socket per machine."""
        self.sockets = {name: folder / f"{name}.lan" for name in names}
        qmp = folder / "hub.qmp"
        self._process = start_process(
            [*programs.qemu, *hub_words(list(self.sockets.values()), qmp)], log=folder / "hub.log"
        )
        Qmp(qmp).close()  # it listens on everything by the time it answers here

    def close(self) -> None:
        """End it."""
        end_process(self._process)
