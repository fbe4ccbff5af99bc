"""VolumeConfigController: which volumes the machine should have."""

from talos.api.definitions import block_pb2
from talos.config.active import read_config
from talos.disks.volumes.specs import NO_ACCESS_TIMES, READ_ONLY, has_parameter
from talos.disks.volumes.system import make_all_volumes
from talos.disks.volumes.user import is_mounted
from talos.images.cache.places import VOLUME as IMAGE_CACHE
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class VolumeConfigController(Reconciler):
    """MachineConfig, Disk → VolumeConfig, and a VolumeMountRequest for each of a user's.

    Volumes without provisioning are only located.
    """

    name = "block.VolumeConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(kinds.DISK))
    outputs = (Output(kinds.VOLUME_CONFIG), Output(kinds.VOLUME_MOUNT_REQUEST))

    def __init__(self, *, has_partitions: bool) -> None:
        self._has_partitions = has_partitions

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write all of them."""
        config = await read_config(runtime)
        disks = [disk.spec for disk in await runtime.list(kinds.DISK)]
        wanted = make_all_volumes(config, disks, has_partitions=self._has_partitions)
        async with runtime.track_outputs():
            for label, (spec, annotations) in wanted.items():
                await runtime.put(kinds.VOLUME_CONFIG, label, spec, annotations=annotations)
                if is_mounted(spec) or label == IMAGE_CACHE:
                    request = block_pb2.VolumeMountRequestSpec(
                        volume_id=label,
                        requester=self.name,
                        read_only=has_parameter(spec.mount, READ_ONLY),
                        disable_access_time=has_parameter(spec.mount, NO_ACCESS_TIMES),
                        secure=spec.mount.secure,
                        no_exec=spec.mount.no_exec,
                    )
                    await runtime.put(kinds.VOLUME_MOUNT_REQUEST, label, request)
