"""Requests to udevd to rescan the disks after they were written to."""

from talos.api.definitions import block_pb2
from talos.resource import ids
from talos.resource.changes import modify, wait_for
from talos.resource.resource import Resource
from talos.resource.state import State


async def refresh_discovery(state: State, *, wait: bool = True) -> None:
    """Request a rescan of all disks; wait until it is done, unless ``wait`` is false."""

    def change(spec: block_pb2.DiscoveryRefreshRequestSpec) -> None:
        spec.request += 1

    written = await modify(state, *ids.DISCOVERY_REFRESH_REQUEST, change)
    request = written.spec.request

    def is_done(resource: Resource[block_pb2.DiscoveryRefreshStatusSpec]) -> bool:
        return resource.spec.request >= request

    if wait:
        await wait_for(state, *ids.DISCOVERY_REFRESH_STATUS, is_done)
