"""What a watcher that doesn't keep up receives."""

from dataclasses import dataclass, replace
from typing import override

import trio
from google.protobuf.message import Message
from trio.abc import Instrument
from trio.testing import wait_all_tasks_blocked

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.resource.changes import modify
from talos.resource.kinds import ADDRESS_STATUS
from talos.resource.memory.history import CAPACITY, MAX_BYTES, History
from talos.resource.memory.state import MemoryState
from talos.resource.memory.usage import MAX_HISTORY, Usage
from talos.resource.resource import make_resource
from talos.resource.state import Event, EventType


async def put(state: MemoryState, number: int, id: str = "a") -> None:
    def change(spec: AddressStatusSpec) -> None:
        spec.link_name = str(number)

    await modify(state, ADDRESS_STATUS, id, change)


async def test_a_watcher_left_behind_gets_an_error_and_no_more() -> None:
    state = MemoryState()
    async with state.watch(ADDRESS_STATUS) as events:
        for number in range(1025):
            await put(state, number)
        batches = [batch async for batch in events]
    assert [[event.type for event in batch] for batch in batches] == [[EventType.ERRORED]]
    assert "events were lost" in batches[0][0].error


async def test_a_watcher_within_the_history_loses_nothing() -> None:
    state = MemoryState()
    async with state.watch(ADDRESS_STATUS) as events:
        for number in range(1024):
            await put(state, number)
        seen = [(await anext(events))[0] for _ in range(1024)]
    assert [event.resource.spec.link_name for event in seen if event.resource] == [
        str(number) for number in range(1024)
    ]


@dataclass(eq=False)
class Wakings(Instrument):
    """Counts how often one task is run."""

    task: trio.lowlevel.Task | None = None
    count: int = 0

    @override
    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self.task


async def test_a_watch_of_one_resource_is_not_woken_by_others() -> None:
    """So it does not fall behind them either."""
    state, wakings, seen = MemoryState(), Wakings(), list[str]()

    async def watch(id: str) -> None:
        async with state.watch(ADDRESS_STATUS, id) as events:
            wakings.task = trio.lowlevel.current_task()
            async for batch in events:
                seen.extend(event.type.name for event in batch)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, "a")
        await wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(wakings)
        for number in range(2 * CAPACITY):
            await put(state, number, "other")
        await wait_all_tasks_blocked()
        assert wakings.count == 0
        for number in range(3):
            await put(state, number)
        await wait_all_tasks_blocked()
        assert wakings.count > 0
        trio.lowlevel.remove_instrument(wakings)
        nursery.cancel_scope.cancel()
    assert seen == ["DESTROYED", "CREATED", "UPDATED", "UPDATED"]


async def test_who_watches_no_more_leaves_the_others() -> None:
    state, seen = MemoryState(), list[str]()

    async def watch(name: str) -> None:
        async with state.watch(ADDRESS_STATUS, "a") as events:
            async for batch in events:
                seen.extend(f"{name} {event.type.name}" for event in batch)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, "one")
        async with trio.open_nursery() as inner:
            inner.start_soon(watch, "two")
            await wait_all_tasks_blocked()
            inner.cancel_scope.cancel()
        seen.clear()
        await put(state, 1)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert seen == ["one CREATED"]


def make_event(name: str) -> Event[Message]:
    return Event(type=EventType.CREATED, resource=make_resource(ADDRESS_STATUS, name, AddressStatusSpec()))


def count_kept(history: History) -> int:
    return history.end - history.start


def test_large_resources_make_the_history_shorter() -> None:
    history = History(Usage())
    for number in range(200):
        history.append(make_event(str(number)), MAX_BYTES // 4)
    assert count_kept(history) == 4
    for number in range(2 * CAPACITY):
        history.append(make_event(str(number)), 1000)
    assert count_kept(history) == CAPACITY


def test_one_event_is_kept_whatever_its_size() -> None:
    history = History(Usage())
    history.append(make_event("a"), 100)
    history.append(make_event("b"), 2 * MAX_BYTES)
    assert count_kept(history) == 1
    resource = history.at(history.end - 1).resource
    assert resource is not None
    assert resource.id == "b"


def test_all_histories_together_are_bounded() -> None:
    """The longest gives way: one that changes little keeps what it has."""
    usage = Usage()
    small, others = History(usage), [History(usage) for _ in range(2 * MAX_HISTORY // MAX_BYTES)]
    for number in range(10):
        small.append(make_event(str(number)), 1000)
    for history in others:
        for number in range(8):
            history.append(make_event(str(number)), MAX_BYTES // 8)
    assert count_kept(small) == 10
    assert MAX_HISTORY - MAX_BYTES < sum(history.size for history in others) <= MAX_HISTORY


async def test_usage_follows_what_owners_write() -> None:
    state = MemoryState()
    resource = make_resource(ADDRESS_STATUS, "a", AddressStatusSpec(), labels={"some": "x" * 5000})
    stored = await state.create(resource, owner="one")
    assert state.usage.of("one") >= 5000
    await state.update(stored.with_metadata(replace(stored.metadata, labels={})), owner="one")
    assert 0 < state.usage.of("one") < 5000
    await state.destroy(ADDRESS_STATUS, "a", owner="one")
    assert state.usage.of("one") == state.usage.of("two") == 0
