"""What a watcher that doesn't keep up receives."""

from dataclasses import replace

from google.protobuf.message import Message

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.resource.changes import modify
from talos.resource.kinds import ADDRESS_STATUS
from talos.resource.memory.history import CAPACITY, MAX_BYTES, History
from talos.resource.memory.state import MemoryState
from talos.resource.memory.usage import MAX_HISTORY, Usage
from talos.resource.resource import make_resource
from talos.resource.state import Event, EventType


async def put(state: MemoryState, number: int) -> None:
    def change(spec: AddressStatusSpec) -> None:
        spec.link_name = str(number)

    await modify(state, ADDRESS_STATUS, "a", change)


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
