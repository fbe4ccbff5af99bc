"""UserDiskConfigStatus: whether the partitions of ``machine.disks`` are ready."""

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.block_pb2 import UserDiskConfigStatusSpec
from talos.config.active import read_config
from talos.disks.volumes.legacy import make_legacy_disks
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class UserDiskConfigController(Reconciler):
    """MachineConfig, Disk, VolumeStatus → UserDiskConfigStatus; without such partitions it is ready."""

    name = "block.UserDiskConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(kinds.DISK), Input(kinds.VOLUME_STATUS))
    outputs = (Output(kinds.USER_DISK_CONFIG_STATUS),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, as long as the main document is there."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is None or config.machine is None:
                return
            disks = [disk.spec for disk in await runtime.list(kinds.DISK)]
            volumes = make_legacy_disks(config, disks, has_partitions=True)
            statuses = {one.id: one.spec.phase for one in await runtime.list(kinds.VOLUME_STATUS)}
            phases = {statuses.get(volume, enums.VOLUME_PHASE_WAITING) for volume in volumes}
            status = UserDiskConfigStatusSpec(
                ready=phases <= {enums.VOLUME_PHASE_READY}, torn_down=phases == {enums.VOLUME_PHASE_CLOSED}
            )
            await runtime.put(*ids.USER_DISK_CONFIG_STATUS, status)
