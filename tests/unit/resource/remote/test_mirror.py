"""The mirror: one watch per kind instead of calls, without ever being behind what woke the reader."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from talos.api.definitions.network_pb2 import HostnameStatusSpec
from talos.resource import kinds
from talos.resource.changes import modify
from talos.resource.memory.state import MemoryState
from talos.resource.remote.mirror import mirror
from talos.resource.resource import make_resource
from talos.resource.state import (
    AlreadyExistsError,
    ConflictError,
    EventType,
    NotFoundError,
    UnavailableError,
    WatchOptions,
)

KIND = kinds.HOSTNAME_STATUS


class CountingState(MemoryState):
    """Counts what would be calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("get")
        return await super().get(*args, **kwargs)

    async def list(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("list")
        return await super().list(*args, **kwargs)

    async def create(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("create")
        return await super().create(*args, **kwargs)

    async def update(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append("update")
        return await super().update(*args, **kwargs)


def named(id: str, name: str) -> Any:
    return make_resource(KIND, id, HostnameStatusSpec(hostname=name))


def set_name(name: str) -> Callable[[HostnameStatusSpec], None]:
    def change(spec: HostnameStatusSpec) -> None:
        spec.hostname = name

    return change


async def test_reads_and_writes_that_change_nothing_take_no_call() -> None:
    state = CountingState()
    await state.create(named("a", "one"), owner="me")
    async with mirror(state) as copy:
        state.calls.clear()
        for _ in range(3):
            assert (await copy.get(KIND, "a")).spec.hostname == "one"
            assert [item.id for item in await copy.list(KIND)] == ["a"]
            await modify(copy, KIND, "a", set_name("one"), owner="me")
        assert state.calls == []
        await modify(copy, KIND, "a", set_name("two"), owner="me")
        await modify(copy, KIND, "b", set_name("new"), owner="me")
        assert state.calls == ["update", "create"]
        assert [item.spec.hostname for item in await copy.list(KIND)] == ["two", "new"]
        with pytest.raises(NotFoundError):
            await copy.get(KIND, "c")


async def test_who_is_woken_reads_what_woke_it() -> None:
    state = MemoryState()
    async with mirror(state) as copy, copy.watch(KIND, options=WatchOptions(aggregated=True)) as events:
        for number in range(20):
            await modify(state, KIND, "a", set_name(str(number)))
            for event in await anext(events):
                assert event.resource is not None
            assert (await copy.get(KIND, "a")).spec.hostname == str(number)
        await state.destroy(KIND, "a")
        await anext(events)
        assert await copy.list(KIND) == []


async def test_a_copy_that_is_behind_is_renewed_after_a_refusal() -> None:
    state = MemoryState()
    await state.create(named("a", "one"))
    async with mirror(state) as copy:
        old = await copy.get(KIND, "a")
        # The mirror doesn't have it yet: no task has run in between.
        await modify(state, KIND, "a", set_name("two"))
        with pytest.raises(ConflictError):
            await copy.update(old.with_spec(HostnameStatusSpec(hostname="mine")))
        assert (await copy.get(KIND, "a")).spec.hostname == "two"
        with pytest.raises(AlreadyExistsError):
            await copy.create(named("a", "mine"))
        await modify(copy, KIND, "a", set_name("mine"))
        assert (await state.get(KIND, "a")).spec.hostname == "mine"


async def test_what_is_made_anew_is_not_taken_for_what_was_destroyed() -> None:
    state = MemoryState()
    await state.create(named("a", "old"))
    async with mirror(state) as copy:
        await copy.list(KIND)
        await copy.destroy(KIND, "a")
        with pytest.raises(NotFoundError):
            await copy.get(KIND, "a")
        await copy.create(named("a", "new"))
        # The events of both come only now.
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await copy.get(KIND, "a")).spec.hostname == "new"


class BreakingState(MemoryState):
    """Its first watch of a kind ends after the first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.watches = 0

    @asynccontextmanager
    async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        self.watches += 1
        async with super().watch(*args, **kwargs) as events:
            yield self._first(events) if self.watches == 1 else events

    @staticmethod
    async def _first(events: Any) -> AsyncGenerator[Any]:
        yield await anext(events)
        raise UnavailableError("gone")


async def test_a_watch_that_ended_is_never_taken_for_an_empty_list(
    autojump_clock: trio.testing.MockClock,
) -> None:
    state = BreakingState()
    await state.create(named("a", "one"))
    async with mirror(state) as copy, copy.watch(KIND) as events:
        await trio.sleep(0.1)  # it is broken now
        await modify(state, KIND, "b", set_name("two"))
        assert [item.id for item in await copy.list(KIND)] == ["a", "b"]
        batch = await anext(events)
        assert EventType.BOOTSTRAPPED in [event.type for event in batch]
