"""What all requesters of a volume request together."""

import trio

from talos.api.definitions.block_pb2 import VolumeMountRequestSpec
from talos.machined.controllers.block.mount_request import MountRequestController
from talos.resource import kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState


async def test_one_request_a_volume() -> None:
    state = MemoryState()
    for name, read_only in (("one", True), ("two", False)):
        spec = VolumeMountRequestSpec(volume_id="STATE", requester=name, read_only=read_only)
        await put(state, kinds.VOLUME_MOUNT_REQUEST, f"{name}-STATE", spec)
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [MountRequestController()])
        request = await wait_for(state, kinds.MOUNT_REQUEST, "STATE", lambda _: True)
        nursery.cancel_scope.cancel()
    assert list(request.spec.requester_i_ds) == ["one-STATE", "two-STATE"]
    assert not request.spec.read_only
