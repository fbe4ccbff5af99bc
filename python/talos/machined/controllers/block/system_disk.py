"""SystemDiskController: the disk with META is the system disk."""

from talos.api.definitions import block_pb2
from talos.disks.installation import find_installed
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log


class SystemDiskController(Reconciler):
    """DiscoveredVolume → SystemDisk. Of several installations the first disk's is taken, with a warning."""

    name = "block.SystemDiskController"
    inputs = (Input(kinds.DISCOVERED_VOLUME),)
    outputs = (Output(kinds.SYSTEM_DISK),)

    def __init__(self, log: Log) -> None:
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, or none."""
        disks = find_installed([volume.spec for volume in await runtime.list(kinds.DISCOVERED_VOLUME)])
        if len(disks) > 1:
            names = ", ".join(path for path, _ in disks)
            text = f"several disks carry an installation, the first is used: {names}"
            self._log.once(text, key="installations")
        async with runtime.track_outputs():
            if disks:
                path, disk_id = disks[0]
                spec = block_pb2.SystemDiskSpec(disk_id=disk_id, dev_path=path)
                await runtime.put(*ids.SYSTEM_DISK, spec)
