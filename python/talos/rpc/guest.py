"""trio as a guest of asyncio in one thread: asyncio's selector waits for trio's events, too.

trio's own guest mode waits for its events in a second thread. Each wait is then two switches between
threads that share the interpreter's lock: half of a short call's time. trio's events are an epoll
file descriptor, which another selector can watch.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import outcome
import trio
import trio._core._run as trio_run  # pyright: ignore[reportPrivateUsage]
from sniffio import thread_local as library

_MAX_WAIT = 24 * 3600.0
"""Seconds; waits of trio's that have no end are infinite."""


class _OneThreadGuest(trio_run.GuestState):
    """Replaces what waits; all else of a guest run is trio's."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = False
        # A duplicate, because trio closes its own before it reports that it has ended.
        self._events = os.dup(self.runner.io_manager._epoll.fileno())  # pyright: ignore[reportPrivateUsage]
        self._loop.add_reader(self._events, self._resume)
        ended = self.done_callback

        def done(result: outcome.Outcome[Any]) -> None:
            self._loop.remove_reader(self._events)
            os.close(self._events)
            ended(result)

        self.done_callback = done

    def guest_tick(self) -> None:
        """Run trio's tasks until all wait."""
        before, library.name = library.name, "trio"
        try:
            timeout = self.unrolled_run_next_send.send(self.unrolled_run_gen)
        except StopIteration:
            assert self.runner.main_task_outcome is not None
            self.done_callback(self.runner.main_task_outcome)
            return
        except trio.TrioInternalError as error:
            self.done_callback(outcome.Error(error))
            return
        finally:
            library.name = before
        if timeout <= 0:
            self.unrolled_run_next_send = outcome.capture(self.runner.io_manager.get_events, 0)
            self.runner.guest_tick_scheduled = True
            self._loop.call_soon(self.guest_tick)
            return
        self.runner.guest_tick_scheduled = False
        self._waiting = True
        if timeout < _MAX_WAIT:
            self._timer = self._loop.call_later(timeout, self._resume)

    def _resume(self) -> None:
        """There are events, or it is time."""
        if not self._waiting:
            return
        self._waiting = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.unrolled_run_next_send = outcome.capture(self.runner.io_manager.get_events, 0)
        self.runner.guest_tick_scheduled = True
        self.guest_tick()


def start_guest_run[*Args](
    function: Callable[[*Args], Awaitable[None]],
    *args: *Args,
    done: Callable[[outcome.Outcome[None]], object],
) -> None:
    """Run a trio function as the guest of the running asyncio loop; ``done`` gets how it ended."""
    loop = asyncio.get_running_loop()
    usual, trio_run.GuestState = trio_run.GuestState, _OneThreadGuest
    try:
        trio.lowlevel.start_guest_run(
            function,
            *args,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=loop.call_soon,
            done_callback=done,
            host_uses_signal_set_wakeup_fd=True,
        )
    finally:
        trio_run.GuestState = usual
