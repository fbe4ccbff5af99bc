"""Requests to have the disks, and what is made of them, read anew after they were written to."""

from typing import Any

import trio
from google.protobuf.message import Message

from talos.api.definitions import block_pb2
from talos.resource import ids
from talos.resource.changes import modify, wait_for
from talos.resource.kind import Kind
from talos.resource.resource import Resource
from talos.resource.state import State

REFRESH_TIMEOUT = 30.0
"""Seconds in which a change should be visible; it is made all the same."""


async def request_refresh[S: Message](state: State, kind: Kind[S], id: str) -> Resource[S]:
    """Count up a resource that requests to read something anew."""

    def change(spec: Any) -> None:
        spec.request += 1

    return await modify(state, kind, id, change)


async def refresh_discovery(state: State, *, wait: bool = True) -> None:
    """Request a rescan of all disks; wait until it is done, unless ``wait`` is false."""
    written = await request_refresh(state, *ids.DISCOVERY_REFRESH_REQUEST)
    request = written.spec.request

    def is_done(resource: Resource[block_pb2.DiscoveryRefreshStatusSpec]) -> bool:
        return resource.spec.request >= request

    if wait:
        await wait_for(state, *ids.DISCOVERY_REFRESH_STATUS, is_done)


async def show_change(state: State) -> None:
    """Have a change of disks shown before the call that made it ends, unless that takes too long."""
    with trio.move_on_after(REFRESH_TIMEOUT):
        await refresh_discovery(state)
