"""The phases of the sequence ``reset`` that erase, after all services have stopped."""

from collections.abc import Awaitable, Callable
from functools import partial

import trio

from talos.disks.reset import ResetPlan, erase, erase_user_disks
from talos.machined.boot.sequence import Phase, Task
from talos.system.block.layout import STATE
from talos.system.block.luks import find_lower_devices
from talos.system.block.partitions import name_partition
from talos.system.logging import Log
from talos.system.mounts import Mounts


def make_reset(
    plan: ResetPlan, mounts: Mounts, log: Log, forget_state_keys: Callable[[], Awaitable[None]]
) -> tuple[Phase, ...]:
    """The phases of a plan. ``forget_state_keys`` removes what META has of STATE's encryption."""
    phases: list[Phase] = []

    async def unmount() -> None:
        for erasure in reversed(plan.erasures):
            unmount_disk(erasure.disk.path, mounts, log)

    async def erase_system() -> None:
        await trio.to_thread.run_sync(erase, plan.erasures, log)

    async def erase_users() -> None:
        await trio.to_thread.run_sync(partial(erase_user_disks, plan.user_disks, log.info))

    if plan.erasures:
        parts = [part.label for erasure in plan.erasures for part in erasure.parts]
        phases.append(Phase("forceCleanup", (Task("forceCleanup", unmount),), may_fail=True))
        name, task = ("resetSpec", "resetSystemDiskSpec") if parts else ("reset", "resetSystemDisk")
        phases.append(Phase(name, (Task(task, erase_system),)))
        if STATE.label in parts:
            forget = Task("forgetStateKeys", forget_state_keys)
            phases.append(Phase("resetMeta", (forget,), may_fail=True))
    if plan.user_disks:
        phases.append(Phase("resetUserDisks", (Task("resetUserDisks", erase_users),)))
    return tuple(phases)


def unmount_disk(path: str, mounts: Mounts, log: Log) -> None:
    """Unmount lazily what is still mounted from a disk."""
    for mount in reversed(mounts.list()):
        if any(_is_on(device, path) for device in (mount.source, *find_lower_devices(mount.source))):
            log.warning("still mounted, unmounting lazily", mount=mount.target)
            mounts.unmount(mount.target, lazy=True)


def _is_on(device: str, disk: str) -> bool:
    """Whether a device is a disk or one of its partitions: ``/dev/vda1``, ``/dev/nvme0n1p1``."""
    between = name_partition(disk, 1)[:-1]
    return device == disk or (device.startswith(between) and device.removeprefix(between).isdigit())
