"""Debug containers end before the machine does."""

from contextlib import suppress

import pytest
import trio

from talos.api.rpc import Code, RpcError
from talos.machined.node.debug_containers import END_TIMEOUT, DebugContainers


async def test_ids_are_those_of_calls_that_are_not_over() -> None:
    containers = DebugContainers()
    with containers.running() as first, containers.running() as second:
        assert containers.ids == {first, second}
        assert first != second
    assert containers.ids == frozenset()
    await containers.end_all()


async def test_an_ending_machine_ends_all_and_waits_until_they_are_removed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    containers, removed = DebugContainers(), list[str]()
    refusals: list[RpcError] = []

    async def run() -> None:
        try:
            with containers.running() as name:
                try:
                    await trio.sleep_forever()
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(END_TIMEOUT / 2)
                        removed.append(name)
        except RpcError as error:
            refusals.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        await containers.end_all()
        assert len(removed) == 2
    with pytest.raises(RpcError, match="the machine is ending"), containers.running():
        pass
    assert [error.code for error in refusals] == [Code.UNAVAILABLE] * 2


async def test_one_that_cannot_be_removed_does_not_hold_the_end_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    containers = DebugContainers()

    async def run() -> None:
        with suppress(RpcError), containers.running(), trio.CancelScope(shield=True):
            await trio.sleep(10 * END_TIMEOUT)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await containers.end_all()
        assert trio.current_time() - began == END_TIMEOUT
