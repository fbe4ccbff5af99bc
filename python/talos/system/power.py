"""Ending the machine's run, through a port."""

import enum
import os
from typing import Protocol, override

from talos.system import kernel


class PowerAction(enum.Enum):
    """What becomes of the machine."""

    REBOOT = kernel.RB_AUTOBOOT
    POWER_OFF = kernel.RB_POWER_OFF
    HALT = kernel.RB_HALT_SYSTEM


class PowerSwitch(Protocol):
    """The switch."""

    def press(self, action: PowerAction) -> None:
        """Do it; nothing is saved for you."""
        ...

    def flush(self) -> None:
        """Write what is still in memory to the disks."""
        ...


class KernelPower(PowerSwitch):
    """The machine itself."""

    @override
    def press(self, action: PowerAction) -> None:
        """Do it; returns only when the kernel refuses, with OSError."""
        kernel.reboot(action.value)

    @override
    def flush(self) -> None:
        os.sync()
