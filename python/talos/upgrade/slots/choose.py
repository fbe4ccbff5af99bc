"""The slots of a machine, by what has started it. No other module looks for the boot loader."""

from talos.resource.state import State
from talos.system.block.partitions import Run
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.upgrade.slots.grub.disk import SystemDisk
from talos.upgrade.slots.grub.slots import GrubSlots
from talos.upgrade.slots.open_keys import OpenKeys
from talos.upgrade.slots.port import Slots
from talos.upgrade.slots.systemd_boot.firmware import Firmware
from talos.upgrade.slots.systemd_boot.slots import SystemdBootSlots
from talos.upgrade.state import find_slot


def choose_slots(
    state: State, run: Run, mounts: Mounts, log: Log, cmdline: str, keys: OpenKeys
) -> tuple[Slots, str]:
    """The slots, and the one that runs; empty where none was booted. ``keys`` are of volumes in use."""
    firmware = Firmware()
    if firmware.has_started_uki:
        return SystemdBootSlots(state, run, mounts, log, keys), firmware.running
    return GrubSlots(SystemDisk(state, run, mounts, log), log), find_slot(cmdline)
