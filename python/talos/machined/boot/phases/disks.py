"""Phases requested by kernel arguments before the config is loaded: wiping, or pausing the boot."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from talos.disks.disk import Disk, find_installed_disk, read_disks
from talos.disks.refresh import refresh_discovery
from talos.disks.reset import WIPE_ARGUMENT, Erasure, erase, parse_wipe_argument, plan_wipe
from talos.machined.boot.machine import Machine
from talos.machined.boot.phases.known_disks import REPEAT, wait_for_installation, wait_until_known
from talos.machined.boot.phases.reset import unmount_disk
from talos.machined.boot.sequence import Phase, Task
from talos.resource.state import State
from talos.system.block.md import Array, Mdadm, read_arrays
from talos.system.block.sysfs import Sysfs
from talos.system.errors import UserError

if TYPE_CHECKING:
    from talos.disks.raid.early import EarlyArrays

HALT_ARGUMENT = "talos.halt_if_installed"
BOOTLOADER_TAG = 0x11
"""META's key in a disk image that names its boot loader. Unused after the first boot."""
REBOOT_DELAY = 70 * 60.0
"""Seconds that a machine waits to be booted from its disk; then it reboots by itself."""


def make_wipe_phases(machine: Machine) -> tuple[Phase, ...]:
    """The phases that erase what an argument names, before it is mounted."""
    values = machine.platform.arguments.all(WIPE_ARGUMENT)

    async def wipe() -> None:
        for value in values:
            try:
                labels = parse_wipe_argument(value)
            except UserError as error:
                machine.log.warning("nothing is erased", reason=str(error))
            else:
                await wipe_system(machine, labels)

    if not (machine.platform.has_disks and values):
        return ()
    return (Phase("wipeDisks", (Task("wipeSystemDisk", wipe),)),)


def make_pause_phases(machine: Machine) -> tuple[Phase, ...]:
    """Remove the boot loader tag of a disk image; pause the boot where an argument requests it."""

    async def remove_tag() -> None:
        if BOOTLOADER_TAG in machine.meta.values:
            await machine.meta.delete(BOOTLOADER_TAG)

    async def pause() -> None:
        if await find_system_disk(machine, Sysfs()) is not None:
            await pause_boot(machine)

    if not machine.platform.has_disks:
        return ()
    phases = [Phase("cleanupBootloader", (Task("cleanupBootloader", remove_tag),), may_fail=True)]
    if machine.platform.arguments.is_on(HALT_ARGUMENT):
        phases.append(Phase("haltIfInstalled", (Task("haltIfInstalled", pause),)))
    return tuple(phases)


async def wipe_system(machine: Machine, labels: tuple[str, ...]) -> None:
    """Erase the system disk, or partitions of the system, before anything on them is used."""
    log = machine.log.bind(reason=WIPE_ARGUMENT)
    await wait_until_known(machine.state, log, Sysfs(), held_up="nothing is erased or started")
    erasures, problems = await find_erasures(machine.state, make_arrays(machine), labels)
    for problem in problems:
        log.warning(problem)
    for erasure in erasures:
        unmount_disk(erasure.disk.path, machine.ports.mounts, log)
    await trio.to_thread.run_sync(erase, erasures, log)
    if erasures:
        await refresh_discovery(machine.state)


async def find_erasures(
    state: State, arrays: "EarlyArrays", labels: Sequence[str]
) -> tuple[Sequence[Erasure], Sequence[str]]:
    """As :func:`plan_wipe`, with those arrays started that what is to be erased may be on."""
    await arrays.start_system()
    erasures, problems = plan_wipe(await read_disks(state), labels)
    if not (labels and problems):
        return erasures, problems
    await arrays.start_others()
    return plan_wipe(await read_disks(state), labels)


def make_arrays(machine: Machine) -> "EarlyArrays":
    """What starts arrays: no controller runs yet."""
    # Loaded by need: seldom.
    from talos.disks.raid.early import EarlyArrays
    from talos.disks.raid.start import ArrayStarter
    from talos.disks.volumes.blocks import KernelBlocks
    from talos.system.block.wipe import make_blank

    async def read() -> Sequence[Array]:
        return await trio.to_thread.run_sync(read_arrays, Sysfs())

    capture = machine.processes.capture
    starter = ArrayStarter(Mdadm(capture, make_blank), read, machine.log)
    return EarlyArrays(machine.state, starter, KernelBlocks(capture).read_head)


async def pause_boot(machine: Machine) -> None:
    """Log what to do, repeatedly, until the time limit."""
    with trio.move_on_after(REBOOT_DELAY):
        while True:
            machine.log.warning(
                "the system is installed already, and this boot is from another medium: boot from the disk",
                reason=HALT_ARGUMENT,
            )
            await trio.sleep(REPEAT)
    raise UserError("the machine was not booted from its disk in time", where=HALT_ARGUMENT)


async def find_system_disk(machine: Machine, sysfs: Sysfs) -> Disk | None:
    """The disk with an installation, once that is known of all disks; None when there is none."""
    log = machine.log.bind(reason=HALT_ARGUMENT)
    await wait_for_installation(machine.state, log, sysfs, held_up="the boot does not go on")
    return find_installed_disk(await read_disks(machine.state))
