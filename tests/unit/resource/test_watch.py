"""What every State promises about watches."""

import re
from collections.abc import Sequence

import pytest
import trio

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.resource.changes import modify
from talos.resource.kinds import ADDRESS_STATUS
from talos.resource.query import LabelTerm, Operator, Query
from talos.resource.resource import Resource, make_resource
from talos.resource.state import (
    BookmarkError,
    Event,
    EventStream,
    EventType,
    State,
    WatchOptions,
)

type Events = EventStream[AddressStatusSpec]


async def put(state: State, id: str, link: str = "eth0", **labels: str) -> Resource[AddressStatusSpec]:
    def change(spec: AddressStatusSpec) -> None:
        spec.link_name = link

    return await modify(state, ADDRESS_STATUS, id, change, labels=labels)


async def take(events: Events, count: int) -> list[Event[AddressStatusSpec]]:
    taken: list[Event[AddressStatusSpec]] = []
    while len(taken) < count:
        taken.extend(await anext(events))
    assert len(taken) == count
    return taken


def brief(events: Sequence[Event[AddressStatusSpec]]) -> list[tuple[str, str]]:
    return [(event.type.name, event.resource.id if event.resource else "") for event in events]


async def test_watch_from_now(state: State) -> None:
    await put(state, "before")
    async with state.watch(ADDRESS_STATUS) as events:
        await put(state, "a")
        await put(state, "a", "eth1")
        await state.destroy(ADDRESS_STATUS, "a")
        seen = await take(events, 3)
    assert brief(seen) == [("CREATED", "a"), ("UPDATED", "a"), ("DESTROYED", "a")]
    assert seen[1].old is not None
    assert seen[1].old.spec.link_name == "eth0"
    assert seen[1].resource is not None
    assert seen[1].resource.spec.link_name == "eth1"
    assert seen[2].resource is not None
    assert seen[2].resource.spec.link_name == "eth1"


async def test_watch_with_bootstrap(state: State) -> None:
    await put(state, "b")
    await put(state, "a")
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(bootstrap=True)) as events:
        await put(state, "c")
        assert brief(await take(events, 4)) == [
            ("CREATED", "a"),
            ("CREATED", "b"),
            ("BOOTSTRAPPED", ""),
            ("CREATED", "c"),
        ]


async def test_aggregated_watch_delivers_bursts(state: State) -> None:
    for number in range(50):
        await put(state, f"{number:02}")
    options = WatchOptions(bootstrap=True, aggregated=True)
    async with state.watch(ADDRESS_STATUS, options=options) as events:
        assert len(await anext(events)) == 51


async def test_watch_goes_on_from_a_bookmark(state: State) -> None:
    async with state.watch(ADDRESS_STATUS) as events:
        await put(state, "a")
        await put(state, "b")
        first, second = await take(events, 2)
    await put(state, "c")
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(bookmark=first.bookmark)) as events:
        assert brief(await take(events, 2)) == [("CREATED", "b"), ("CREATED", "c")]
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(bookmark=second.bookmark)) as events:
        assert brief(await take(events, 1)) == [("CREATED", "c")]


async def test_bootstrap_bookmark(state: State) -> None:
    await put(state, "a")
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(bootstrap_bookmark=True)) as events:
        (event,) = await take(events, 1)
    assert event.type is EventType.NOOP
    await put(state, "b")
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(bookmark=event.bookmark)) as events:
        assert brief(await take(events, 1)) == [("CREATED", "b")]


@pytest.mark.parametrize("bookmark", [b"", b"short", bytes(8), bytes(16), b"\xff" * 16])
async def test_foreign_bookmark_is_refused(state: State, bookmark: bytes) -> None:
    with pytest.raises(BookmarkError):
        async with state.watch(ADDRESS_STATUS, options=WatchOptions(bookmark=bookmark)):
            pass


async def test_bookmark_beyond_the_history_is_refused(state: State) -> None:
    async with state.watch(ADDRESS_STATUS) as events:
        await put(state, "a")
        (event,) = await take(events, 1)
    for number in range(1100):
        await put(state, "a", str(number))
    with pytest.raises(BookmarkError):
        async with state.watch(ADDRESS_STATUS, options=WatchOptions(bookmark=event.bookmark)):
            pass


async def test_tail(state: State) -> None:
    for name in "abcd":
        await put(state, name)
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(tail=2)) as events:
        await put(state, "e")
        assert brief(await take(events, 3)) == [("CREATED", "c"), ("CREATED", "d"), ("CREATED", "e")]
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(tail=100)) as events:
        assert len(await take(events, 5)) == 5


async def test_tail_of_one_resource(state: State) -> None:
    await put(state, "a")
    await put(state, "b")
    await put(state, "a", "eth1")
    await put(state, "c")
    async with state.watch(ADDRESS_STATUS, "a", options=WatchOptions(tail=1)) as events:
        assert brief(await take(events, 1)) == [("UPDATED", "a")]
    async with state.watch(ADDRESS_STATUS, "a", options=WatchOptions(tail=9)) as events:
        assert brief(await take(events, 2)) == [("CREATED", "a"), ("UPDATED", "a")]


async def test_tail_of_a_full_history_keeps_the_gap(state: State) -> None:
    for number in range(1100):
        await put(state, "a", str(number))
    async with state.watch(ADDRESS_STATUS, options=WatchOptions(tail=5000)) as events:
        first = (await take(events, 1))[0]
        assert first.resource is not None
        assert first.resource.spec.link_name == str(1100 - 1024 + 4)


async def test_watch_of_one_resource(state: State) -> None:
    async with state.watch(ADDRESS_STATUS, "a") as events:
        (absent,) = await take(events, 1)
        assert absent.type is EventType.DESTROYED
        assert absent.resource is not None
        assert (absent.resource.id, absent.resource.metadata.version) == ("a", 0)
        await put(state, "b")
        await put(state, "a")
        assert brief(await take(events, 1)) == [("CREATED", "a")]
    async with state.watch(ADDRESS_STATUS, "a") as events:
        assert brief(await take(events, 1)) == [("CREATED", "a")]
        await state.destroy(ADDRESS_STATUS, "a")
        assert brief(await take(events, 1)) == [("DESTROYED", "a")]


async def test_query_makes_resources_come_and_go(state: State) -> None:
    query = Query(labels=((LabelTerm(key="zone", operator=Operator.EQUAL, values=("x",)),),))
    async with state.watch(ADDRESS_STATUS, query=query, options=WatchOptions(bootstrap=True)) as events:
        await put(state, "other", zone="y")
        await put(state, "a", zone="y")
        await put(state, "a", zone="x")
        await put(state, "a", "eth1", zone="x")
        await put(state, "a", "eth1", zone="y")
        await put(state, "last", zone="x")
        assert brief(await take(events, 5)) == [
            ("BOOTSTRAPPED", ""),
            ("CREATED", "a"),
            ("UPDATED", "a"),
            ("DESTROYED", "a"),
            ("CREATED", "last"),
        ]


async def test_id_query(state: State) -> None:
    await put(state, "eth0/a")
    async with state.watch(
        ADDRESS_STATUS, query=Query(id_pattern=re.compile("^eth0/")), options=WatchOptions(bootstrap=True)
    ) as events:
        await put(state, "eth1/a")
        await put(state, "eth0/b")
        assert brief(await take(events, 3)) == [
            ("CREATED", "eth0/a"),
            ("BOOTSTRAPPED", ""),
            ("CREATED", "eth0/b"),
        ]


async def test_namespaces_are_watched_apart(state: State) -> None:
    async with state.watch(ADDRESS_STATUS, namespace="network-config") as events:
        await put(state, "a")
        await state.create(
            make_resource(ADDRESS_STATUS, "b", AddressStatusSpec(), namespace="network-config")
        )
        assert brief(await take(events, 1)) == [("CREATED", "b")]


async def test_watch_waits_for_the_next_change(state: State, autojump_clock: trio.abc.Clock) -> None:
    del autojump_clock
    async with state.watch(ADDRESS_STATUS) as events, trio.open_nursery() as nursery:

        async def change_later() -> None:
            await trio.sleep(10)
            await put(state, "a")

        nursery.start_soon(change_later)
        assert brief(await take(events, 1)) == [("CREATED", "a")]
        assert trio.current_time() >= 10


async def test_two_ways_to_begin_exclude_each_other(state: State) -> None:
    with pytest.raises(ValueError, match="begins in one way"):
        async with state.watch(ADDRESS_STATUS, options=WatchOptions(bootstrap=True, tail=3)):
            pass
