"""What the launcher's and the kernel's signals to PID 1 lead to."""

from dataclasses import dataclass, field

import pytest
import trio

from talos.machined.boot.boot import end_on_signal
from talos.machined.node.ports.power import SequenceLockedError
from talos.system.logging import Log


@dataclass(frozen=True, slots=True)
class Power:
    """As much of the sequences as signals begin."""

    begun: list[str] = field(default_factory=list[str])
    is_locked: bool = False

    def reboot(self) -> None:
        if self.is_locked:
            raise SequenceLockedError("")
        self.begun.append("reboot")

    def shutdown(self, *, force: bool) -> None:
        self.begun.append("shutdown by force" if force else "shutdown")


@dataclass(frozen=True, slots=True)
class Signals:
    """Which signals came."""

    stopping: trio.Event = field(default_factory=trio.Event)
    interrupted: trio.Event = field(default_factory=trio.Event)


@dataclass(frozen=True, slots=True)
class Machine:
    """As much of a machine as signals concern."""

    daemon: Signals
    power: Power
    log: Log


@pytest.mark.parametrize(
    ("by_keys", "is_locked", "begun"),
    [(False, False, ["shutdown by force"]), (True, False, ["reboot"]), (True, True, [])],
)
async def test_ctrl_alt_del_reboots_and_sigterm_shuts_down(
    *, by_keys: bool, is_locked: bool, begun: list[str]
) -> None:
    lines: list[str] = []
    machine = Machine(Signals(), Power(is_locked=is_locked), Log(write=lines.append))
    if by_keys:
        machine.daemon.interrupted.set()
    machine.daemon.stopping.set()
    await end_on_signal(machine)  # pyright: ignore[reportArgumentType]
    assert machine.power.begun == begun
