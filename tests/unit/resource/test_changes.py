"""Waiting for a resource while more happens than a watch can hold."""

from dataclasses import replace

import pytest
import trio
import trio.testing
from google.protobuf.message import Message

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.resource.changes import put, teardown_and_destroy, wait_for
from talos.resource.kinds import ADDRESS_STATUS
from talos.resource.memory.history import MAX_BYTES
from talos.resource.memory.state import MemoryState
from talos.resource.resource import Resource, make_resource
from talos.resource.state import NotFoundError


def exists(_: Resource[Message]) -> bool:
    return True


async def flood(state: MemoryState) -> None:
    """More than a history keeps, before a watcher runs: fewer calls than the State lets others wait for."""
    size = MAX_BYTES // 40
    for number in range(50):
        spec = AddressStatusSpec(link_name="x" * size)
        await state.create(make_resource(ADDRESS_STATUS, f"other{number}", spec))


async def test_waiting_goes_on_after_a_watch_fell_behind() -> None:
    state = MemoryState()
    found: list[str] = []

    async def wait() -> None:
        resource = await wait_for(state, ADDRESS_STATUS, "a", lambda one: one.spec.link_name == "eth0")
        found.append(resource.spec.link_name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await flood(state)
        await trio.testing.wait_all_tasks_blocked()
        assert not found
        await put(state, ADDRESS_STATUS, "a", AddressStatusSpec(link_name="eth0"))


async def test_what_happened_while_events_were_lost_is_found() -> None:
    state = MemoryState()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for, state, ADDRESS_STATUS, "a", exists)
        await trio.testing.wait_all_tasks_blocked()
        await put(state, ADDRESS_STATUS, "a", AddressStatusSpec())
        await flood(state)


async def test_a_destruction_goes_on_after_a_watch_fell_behind() -> None:
    state = MemoryState()
    await put(state, ADDRESS_STATUS, "a", AddressStatusSpec())
    held = await state.get(ADDRESS_STATUS, "a")
    held = await state.update(held.with_metadata(replace(held.metadata, finalizers=("holder",))))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(teardown_and_destroy, state, ADDRESS_STATUS, "a")
        await trio.testing.wait_all_tasks_blocked()
        await flood(state)
        await trio.testing.wait_all_tasks_blocked()
        ending = await state.get(ADDRESS_STATUS, "a")
        await state.update(ending.with_metadata(replace(ending.metadata, finalizers=())), expected_phase=None)
    with pytest.raises(NotFoundError):
        await state.get(ADDRESS_STATUS, "a")
