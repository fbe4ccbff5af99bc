"""Watches of a remote State across broken connections and restarted servers."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import trio
import trio.testing
from tests.unit.resource.loopback import LoopbackTransport

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.api.rpc import Code, RpcError
from talos.resource.changes import modify
from talos.resource.kinds import ADDRESS_STATUS
from talos.resource.memory import collection
from talos.resource.memory.state import MemoryState
from talos.resource.query import Query
from talos.resource.remote.service import Verb, make_state_service
from talos.resource.remote.state import RemoteState
from talos.resource.state import (
    Event,
    EventStream,
    NotFoundError,
    StateError,
    UnavailableError,
    WatchOptions,
)


@dataclass
class Server:
    """A State and the way to it; can be cut off, lose its memory, refuse."""

    memory: MemoryState
    transport: LoopbackTransport
    is_closed: bool = False

    @property
    def remote(self) -> RemoteState:
        return RemoteState(self.transport)

    def restart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Come back with an empty State that has no earlier bookmark."""
        monkeypatch.setattr(collection, "_EPOCH", b"another.")
        self.memory = MemoryState()
        self.transport.services = (make_state_service(self.memory, guard=self.check),)
        self.transport.break_streams()

    async def check(self, *_: object) -> None:
        if self.is_closed:
            raise RpcError(Code.PERMISSION_DENIED, "not authorized")

    async def put(self, id: str, link: str = "eth0") -> None:
        def change(spec: AddressStatusSpec) -> None:
            spec.link_name = link

        await modify(self.memory, ADDRESS_STATUS, id, change)


@pytest.fixture
def server(autojump_clock: trio.testing.MockClock) -> Server:
    del autojump_clock
    server = Server(MemoryState(), LoopbackTransport())
    server.transport.services = (make_state_service(server.memory, guard=server.check),)
    return server


async def take(events: EventStream[AddressStatusSpec], count: int) -> list[tuple[str, str]]:
    taken: list[Event[AddressStatusSpec]] = []
    with trio.fail_after(30):
        while len(taken) < count:
            taken.extend(await anext(events))
    return brief(taken)


def brief(events: Sequence[Event[AddressStatusSpec]]) -> list[tuple[str, str]]:
    return [(event.type.name, event.resource.id if event.resource else "") for event in events]


async def assert_silent(events: EventStream[AddressStatusSpec]) -> None:
    with trio.move_on_after(60):
        raise AssertionError(f"unexpected {brief(await anext(events))}")


async def test_nothing_is_lost_or_repeated_over_a_break(
    server: Server, autojump_clock: trio.testing.MockClock
) -> None:
    async with server.remote.watch(ADDRESS_STATUS, options=WatchOptions(bootstrap=True)) as events:
        await server.put("a")
        assert await take(events, 2) == [("BOOTSTRAPPED", ""), ("CREATED", "a")]
        server.transport.is_down = True
        server.transport.break_streams()
        await server.put("b")
        await trio.sleep(30)
        await server.put("a", "eth1")
        server.transport.is_down = False
        assert await take(events, 2) == [("CREATED", "b"), ("UPDATED", "a")]
        await assert_silent(events)


async def test_a_watch_from_now_loses_nothing_though_it_had_no_event(
    server: Server, autojump_clock: trio.testing.MockClock
) -> None:
    await server.put("a")
    async with server.remote.watch(ADDRESS_STATUS) as events:
        await trio.testing.wait_all_tasks_blocked()
        server.transport.break_streams()
        await server.put("b")
        assert await take(events, 1) == [("CREATED", "b")]


async def test_a_follower_learns_what_differs_after_a_restart(
    server: Server, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    for name in ("changed", "gone"):
        await server.put(name)
    async with server.remote.watch(ADDRESS_STATUS, options=WatchOptions(bootstrap=True)) as events:
        await take(events, 3)
        server.restart(monkeypatch)
        await server.put("changed", "eth1")
        await server.put("new")
        assert await take(events, 3) == [("DESTROYED", "gone"), ("UPDATED", "changed"), ("CREATED", "new")]
        await server.put("later")
        assert await take(events, 1) == [("CREATED", "later")]


async def test_a_watch_from_now_gets_all_after_a_restart(
    server: Server, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    async with server.remote.watch(ADDRESS_STATUS) as events:
        await server.put("a")
        await take(events, 1)
        server.restart(monkeypatch)
        await server.put("b")
        assert await take(events, 2) == [("CREATED", "b"), ("BOOTSTRAPPED", "")]


async def test_a_break_longer_than_the_history(
    server: Server, autojump_clock: trio.testing.MockClock
) -> None:
    await server.put("b")
    async with server.remote.watch(ADDRESS_STATUS, options=WatchOptions(bootstrap=True)) as events:
        await take(events, 2)
        server.transport.is_down = True
        server.transport.break_streams()
        for number in range(1100):
            await server.put("a", str(number))
        server.transport.is_down = False
        assert await take(events, 1) == [("CREATED", "a")]
        await assert_silent(events)


async def test_the_watch_of_one_resource_reports_only_what_changed(
    server: Server, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    await server.put("a")
    async with server.remote.watch(ADDRESS_STATUS, "a") as events:
        assert await take(events, 1) == [("CREATED", "a")]
        server.transport.break_streams()
        await assert_silent(events)
        server.transport.break_streams()
        await server.put("a", "eth1")
        assert await take(events, 1) == [("UPDATED", "a")]
        server.transport.break_streams()
        await server.memory.destroy(ADDRESS_STATUS, "a")
        assert await take(events, 1) == [("DESTROYED", "a")]
        server.transport.break_streams()
        await assert_silent(events)


async def test_a_refusal_ends_the_watch(server: Server, autojump_clock: trio.testing.MockClock) -> None:
    async with server.remote.watch(ADDRESS_STATUS) as events:
        server.is_closed = True
        server.transport.break_streams()
        with pytest.raises(StateError, match="not authorized"):
            await anext(events)


async def test_a_watch_that_cant_begin_raises(server: Server, autojump_clock: trio.testing.MockClock) -> None:
    server.transport.is_down = True
    with pytest.raises(UnavailableError):
        async with server.remote.watch(ADDRESS_STATUS):
            pass
    with pytest.raises(UnavailableError):
        await server.remote.get(ADDRESS_STATUS, "a")
    with pytest.raises(UnavailableError):
        await server.remote.list(ADDRESS_STATUS)


async def test_what_the_reader_raises_is_not_wrapped(
    server: Server, autojump_clock: trio.testing.MockClock
) -> None:
    with pytest.raises(NotFoundError):
        async with server.remote.watch(ADDRESS_STATUS):
            await server.remote.get(ADDRESS_STATUS, "a")


async def test_a_slow_reader_gets_an_error_event(
    server: Server, autojump_clock: trio.testing.MockClock
) -> None:
    async with server.remote.watch(ADDRESS_STATUS) as events:
        for number in range(1100):
            await server.put("a", str(number))
        await trio.testing.wait_all_tasks_blocked()
        for number in range(1100):
            await server.put("a", str(number))
        seen = [event.type.name async for batch in events for event in batch]
    assert seen[-1] == "ERRORED"
    assert len(seen) < 1100


async def test_queries_hold_after_a_break(server: Server, autojump_clock: trio.testing.MockClock) -> None:
    query = Query(labels=())
    async with server.remote.watch(
        ADDRESS_STATUS, query=query, options=WatchOptions(bootstrap_bookmark=True)
    ) as events:
        assert await take(events, 1) == [("NOOP", "")]
        server.transport.break_streams()
        await server.put("a")
        assert await take(events, 1) == [("CREATED", "a")]


def test_verbs_know_whether_they_write() -> None:
    assert [verb.name for verb in Verb if verb.is_write] == ["CREATE", "UPDATE", "TEARDOWN", "DESTROY"]
