"""SystemDiskController: the disk that carries META is the one that the system lives on."""

import logging
from collections.abc import Iterable

from talos.api.definitions import block_pb2
from talos.disks.layout import META
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.block.blkid import TALOS_META

ID = "system-disk"
_log = logging.getLogger(__name__)


def find_installed(volumes: Iterable[block_pb2.DiscoveredVolumeSpec]) -> list[tuple[str, str]]:
    """The disks that carry an installation, by device and id, in order."""
    marked = [spec for spec in volumes if spec.partition_label == META.label and spec.name == TALOS_META]
    return sorted({(spec.parent_dev_path, spec.parent) for spec in marked})


class SystemDiskController(Reconciler):
    """DiscoveredVolume → SystemDisk. Of several installations the first disk's is taken, and told."""

    name = "block.SystemDiskController"
    inputs = (Input(kinds.DISCOVERED_VOLUME),)
    outputs = (Output(kinds.SYSTEM_DISK),)

    def __init__(self) -> None:
        self._told: tuple[str, ...] = ()

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, or none."""
        disks = find_installed([volume.spec for volume in await runtime.list(kinds.DISCOVERED_VOLUME)])
        names = tuple(path for path, _ in disks)
        if len(disks) > 1 and names != self._told:
            _log.warning("several disks carry an installation, the first is used: %s", ", ".join(names))
        self._told = names
        async with runtime.track_outputs():
            if disks:
                path, disk_id = disks[0]

                def change(spec: block_pb2.SystemDiskSpec) -> None:
                    spec.disk_id = disk_id
                    spec.dev_path = path

                await runtime.modify(kinds.SYSTEM_DISK, ID, change)
