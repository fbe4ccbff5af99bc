"""What a watcher that doesn't keep up receives."""

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.resource.changes import modify
from talos.resource.kinds import ADDRESS_STATUS
from talos.resource.memory.history import CAPACITY, GAP, MIN_EVENTS
from talos.resource.memory.state import MemoryState
from talos.resource.state import EventType, WatchOptions


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


async def test_large_specs_make_the_history_shorter() -> None:
    state = MemoryState()

    async def put_large(name: str) -> None:
        def change(spec: AddressStatusSpec) -> None:
            spec.link_name = name * 1_000_000

        await modify(state, ADDRESS_STATUS, "a", change)

    for number in range(200):
        await put_large("ab"[number % 2])
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(tail=1000, aggregated=True)) as events:
        assert len(await anext(events)) == MIN_EVENTS - GAP
    for number in range(CAPACITY):
        await put(state, number)
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(tail=2000, aggregated=True)) as events:
        assert len(await anext(events)) == CAPACITY - GAP
