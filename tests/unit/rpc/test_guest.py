"""trio as asyncio's guest: time, sockets and calls from asyncio wake it, and no thread waits for it."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable

import outcome
import pytest
import trio
import trio.lowlevel
import trio.testing
from tests.harness.limits import REAL_TIMEOUT

from talos.rpc.guest import start_guest_run


def run(function: Callable[[], Awaitable[None]]) -> None:
    async def host() -> None:
        done: asyncio.Future[outcome.Outcome[None]] = asyncio.get_running_loop().create_future()
        start_guest_run(function, done=done.set_result)
        (await asyncio.wait_for(done, REAL_TIMEOUT)).unwrap()

    asyncio.run(host())


def test_time_passes() -> None:
    async def main() -> None:
        before = trio.current_time()
        await trio.sleep(0.01)
        assert trio.current_time() - before >= 0.01

    run(main)


def test_a_time_out_ends_a_wait() -> None:
    async def main() -> None:
        with trio.move_on_after(0.01) as scope:
            await trio.sleep_forever()
        assert scope.cancelled_caught

    run(main)


def test_a_socket_and_a_thread_wake_it_and_no_other_thread_waits() -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        ours, other = trio.socket.socketpair()
        with ours, other:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.recv, 1)
                await trio.testing.wait_all_tasks_blocked()
                assert set(threading.enumerate()) <= before
                await other.send(b"x")
        assert await trio.to_thread.run_sync(threading.get_ident) != threading.get_ident()

    run(main)


def test_asyncio_wakes_it() -> None:
    async def main() -> None:
        event = trio.Event()
        asyncio.get_running_loop().call_later(0.01, event.set)
        await event.wait()

    run(main)


def test_an_error_ends_the_run() -> None:
    async def main() -> None:
        raise ValueError("as requested")

    with pytest.raises(ValueError, match="as requested"):
        run(main)


def test_runs_do_not_leave_descriptors() -> None:
    def lowest() -> int:
        with socket.socket() as probe:
            return probe.fileno()

    async def main() -> None:
        await trio.lowlevel.checkpoint()

    run(main)
    before = lowest()
    run(main)
    assert lowest() == before
