"""Mounting a volume, with a repair when its structure is broken, and undoing it."""

import errno
from collections.abc import Mapping

import trio

from talos.disks.volumes.blocks import EXT4, Blocks
from talos.disks.volumes.volume import VolumePlace
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.logging import Log
from talos.system.mounts import MountPoint, Mounts
from talos.system.proc.processes import find_holders

STRUCTURE_ERRORS = frozenset({errno.EUCLEAN, errno.EBADMSG})
"""Errors of a mount when the filesystem is broken; of a disk that fails it is EIO."""
CHANGEABLE = frozenset({"nosuid", "nodev", "noexec", "noatime", "ro"})
"""Mount options that the config decides on."""
GROWTH = 1 << 20
"""Bytes that a partition must have more than its filesystem for the latter to be grown."""
_XFS_LOSS = "its log can't be replayed: what was written last is lost"
_EXT4_LOSS = "not all of it can be repaired: what belongs nowhere any more is in lost+found"


async def mount_volume(
    blocks: Blocks,
    mounts: Mounts,
    place: VolumePlace,
    point: MountPoint,
    log: Log,
    *,
    grow: bool = False,
    is_own: bool = True,
) -> None:
    """Mount; UserError when even a repair doesn't help.

    Mounting replays the log. When that fails on the filesystem's structure, ``xfs_repair`` gets its turn; as
    there is no way to do it by hand, it may drop a log that can't be replayed. ``e2fsck`` comes before the
    mount, too, because the kernel mounts an ext4 that it has found errors in. One that is not ``is_own`` is
    someone else's: it is neither repaired, nor gets its folder another mode.
    """
    target = point.target
    if not is_mounted(mounts, place.source, target):
        if is_own and not await blocks.check(place.source, place.content.name):
            await _repair(blocks, place, log, "it has errors that take decisions")
        try:
            await trio.to_thread.run_sync(mounts.mount, point)
        except OSError as error:
            if error.errno not in STRUCTURE_ERRORS or not is_own:
                raise UserError(f"can't be mounted: {error.strerror}", where=place.source) from None
            await _repair(blocks, place, log, str(error.strerror))
            await _mount_again(mounts, place, point)
        if is_own:
            await blocks.set_mode(target, point.mode)
    known = place.content.filesystem_size
    if grow and known and place.content.size - known >= GROWTH:
        try:
            if await blocks.grow_filesystem(place.source, place.content.name, target):
                log.info("a filesystem has grown with its partition", device=place.source)
        except UserError as error:
            log.warning("a filesystem stays smaller than its partition", reason=str(error))


async def _repair(blocks: Blocks, place: VolumePlace, log: Log, reason: str) -> None:
    filesystem = place.content.name
    log.warning("a filesystem is broken, repairing it", device=place.source, reason=reason)
    if await blocks.repair(place.source, filesystem, force=False):
        return
    log.error(_EXT4_LOSS if filesystem == EXT4 else _XFS_LOSS, device=place.source)
    await blocks.repair(place.source, filesystem, force=True)


async def _mount_again(mounts: Mounts, place: VolumePlace, point: MountPoint) -> None:
    try:
        await trio.to_thread.run_sync(mounts.mount, point)
    except OSError as error:
        raise UserError(
            f"can't be mounted, not even after a repair: {error.strerror}",
            where=place.source,
            hint="reset it: talosctl reset --system-labels-to-wipe, and the label",
        ) from None


async def unmount_volume(mounts: Mounts, target: str, log: Log) -> bool:
    """Unmount; what is still in use is named and made read-only. Returns whether it is unmounted."""
    if not any(mount.target == target for mount in mounts.list()):
        return True
    try:
        await trio.to_thread.run_sync(mounts.unmount, target)
    except OSError as error:
        held = await trio.to_thread.run_sync(find_holders, KernelFiles(), target)
        log.warning("still in use at the end", mount=target, reason=error.strerror, held_by=held)
        try:
            await trio.to_thread.run_sync(mounts.remount_read_only, target)
        except OSError as again:
            log.warning("can't be made read-only", mount=target, reason=again.strerror)
        return False
    return True


def is_mounted(mounts: Mounts, device: str, target: str) -> bool:
    """Whether the volume is mounted already; UserError when something else is mounted there."""
    sources = [mount.source for mount in mounts.list() if mount.target == target]
    if sources and sources[-1] != device:
        raise UserError(f"{sources[-1]} is mounted there instead of {device}", where=target)
    return bool(sources)


def make_options(
    *, secure: bool, no_exec: bool, no_access_time: bool, read_only: bool = False
) -> tuple[str, ...]:
    """Mount options as in fstab."""
    chosen: Mapping[str, bool] = {
        "nosuid": secure,
        "nodev": secure,
        "noexec": no_exec,
        "noatime": no_access_time,
        "ro": read_only,
    }
    return tuple(option for option, wanted in chosen.items() if wanted)


def make_point(
    place: VolumePlace,
    target: str,
    options: tuple[str, ...],
    mode: int,
    *,
    quota: bool,
    guarded: bool = False,
) -> MountPoint:
    """The mount of a volume."""
    return MountPoint(
        source=place.source,
        target=target,
        type=place.content.name,
        options=options,
        data="prjquota" if quota else "",
        mode=mode,
        guarded=guarded,
    )
