"""MountRequest: the combined requests for a volume's mount."""

from collections import defaultdict

from talos.api.definitions.block_pb2 import MountRequestSpec, VolumeMountRequestSpec
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.resource import Phase, Resource


class MountRequestController(Reconciler):
    """VolumeMountRequest → MountRequest, one a volume."""

    name = "block.MountRequestController"
    inputs = (Input(kinds.VOLUME_MOUNT_REQUEST), Input(kinds.VOLUME_STATUS))
    outputs = (Output(kinds.MOUNT_REQUEST),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Combine the requests of each volume."""
        requests: defaultdict[str, list[Resource[VolumeMountRequestSpec]]] = defaultdict(list)
        for request in await runtime.list(kinds.VOLUME_MOUNT_REQUEST):
            if request.metadata.phase is Phase.RUNNING:
                requests[request.spec.volume_id].append(request)
        async with runtime.track_outputs():
            for volume, wanted in requests.items():
                status = await runtime.get_or_none(kinds.VOLUME_STATUS, volume)
                spec = MountRequestSpec(
                    volume_id=volume,
                    parent_mount_id=status.spec.mount_spec.parent_id if status else "",
                    requesters=[request.spec.requester for request in wanted],
                    requester_i_ds=[request.id for request in wanted],
                    read_only=all(request.spec.read_only for request in wanted),
                    disable_access_time=any(request.spec.disable_access_time for request in wanted),
                    secure=any(request.spec.secure for request in wanted),
                    no_exec=any(request.spec.no_exec for request in wanted),
                )
                await runtime.put(kinds.MOUNT_REQUEST, volume, spec)
