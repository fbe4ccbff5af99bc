"""The last phases of each sequence that ends this boot: services stop, filesystems are unmounted."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from talos.disks.volumes.system import STATE_TARGET
from talos.machined.boot.filesystems import OPT
from talos.machined.boot.sequence import Phase, Task
from talos.machined.boot.sequence_lock import SequenceLock
from talos.machined.logs.store import LogStore
from talos.machined.services.supervisor import Supervisor
from talos.system.files import Files
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.system.proc.processes import find_holders

SYSTEM = frozenset({"machined", "apid", "routerd"})
"""These services serve the API until the end."""
PERSISTENT_TYPES = frozenset({"xfs", "ext4", "vfat", "btrfs", "overlay"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPhases:
    """Makes the phases.

    ``close_volumes`` unmounts all volumes and closes their devices; ``end_debugging`` ends debug containers,
    which may use them.
    """

    supervisor: Supervisor
    logs: LogStore
    mounts: Mounts
    files: Files
    log: Log
    close_volumes: Callable[[], Awaitable[None]]
    end_debugging: Callable[[], Awaitable[None]]

    def make(self, lock: SequenceLock | None = None) -> tuple[Phase, ...]:
        """The phases that stop all services but the API and unmount all filesystems."""
        return (
            *((Phase("lock", (Task("takeUpgradeLock", lock.take),)),) if lock else ()),
            Phase("denyNewServices", (Task("denyNewServices", self._deny),)),
            Phase("stopServices", (Task("stopServicesForUpgrade", self._stop_services),), may_fail=True),
            Phase("umount", (Task("unmountPodMounts", self._unmount_pods),), may_fail=True),
            Phase("unmountSystem", (Task("unmountEphemeralPartition", self._unmount_var),), may_fail=True),
            Phase("volumeFinalize", (Task("teardownLifecycle", self._unmount_state),), may_fail=True),
        )

    def find_running(self) -> dict[str, list[str]]:
        """The services that still run, and the filesystems of disks that are still mounted."""
        services = [status.id for status in self.supervisor.list() if status.pid and status.id not in SYSTEM]
        return {"services": services, "mounts": find_persistent(self.mounts)}

    async def _deny(self) -> None:
        self.supervisor.deny_starts("the machine is ending")

    async def _stop_services(self) -> None:
        await self.end_debugging()
        await self.supervisor.stop_all(keep=SYSTEM)

    async def _unmount_pods(self) -> None:
        await self._unmount(lambda target: target.startswith(("/var/lib/kubelet/", "/run/containerd/")))

    async def _unmount_var(self) -> None:
        if not await trio.to_thread.run_sync(self.logs.close_files):
            self.log.warning("the disk takes no more logs")
        await self._unmount(lambda target: target.startswith("/var/") or target == OPT)
        await self._unmount(lambda target: target == "/var")

    async def _unmount_state(self) -> None:
        await self.close_volumes()
        await self._unmount(lambda target: target == STATE_TARGET)

    async def _unmount(self, is_due: Callable[[str], bool]) -> None:
        """Unmount, the newest first; a busy mount is logged and made read-only."""
        for mount in reversed(self.mounts.list()):
            if is_due(mount.target):
                try:
                    self.mounts.unmount(mount.target)
                except OSError as error:
                    holders = await trio.to_thread.run_sync(find_holders, self.files, mount.target)
                    self.log.warning(
                        "still in use", mount=mount.target, reason=error.strerror, held_by=holders
                    )
                    _make_read_only(self.mounts, mount.target)
            await trio.lowlevel.checkpoint()


def find_persistent(mounts: Mounts) -> list[str]:
    """Where filesystems of disks are mounted."""
    return [mount.target for mount in mounts.list() if mount.type in PERSISTENT_TYPES]


def _make_read_only(mounts: Mounts, target: str) -> None:
    """Remount read-only, if possible: a bind mount or a file open for writing prevents it."""
    try:
        mounts.remount_read_only(target)
    except OSError:
        return
