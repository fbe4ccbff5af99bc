"""The delivery to one destination: in order, again after a failure, with what was lost counted.

A block of messages is held until the destination's kernel has acknowledged it, and sent again on the next
connection when that did not happen: a destination may get lines twice, but none is lost on the way to it.
What it does not take stays in the rings of PID 1, which drop the oldest lines and count them.
"""

import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import cast

import trio

from talos.logd.destination import FAILURES, Connection, Destination, open_connection
from talos.system.backoff import Backoff
from talos.system.logging import Log

RETRY_BACKOFF = Backoff(0.5, 30.0)
"""Seconds until a destination that failed is tried again."""
STABLE_AFTER = 30.0
"""Seconds of a connection, after which the next failure counts as the first."""
REPORT_INTERVAL = 60.0
"""Seconds between two lines of our own log about lost ones."""
MAX_DATAGRAM = 65507
"""Bytes: RFC 768, over IPv4."""
POLL_INTERVAL = 0.1
"""Seconds between looks whether all is delivered, at a shutdown only."""

type Open = Callable[[Destination], AbstractAsyncContextManager[Connection]]


class Delivery:
    """Sends messages to one destination; :meth:`run` has to run in a task."""

    def __init__(self, destination: Destination, log: Log, open: Open = open_connection) -> None:
        self.destination = destination
        self.lost = 0
        self._log = log
        self._open = open
        self._blocks_in, self._blocks_out = trio.open_memory_channel[bytes](0)
        self._unsent: deque[bytes] = deque()
        self._sent: deque[tuple[int, bytes]] = deque()
        self._reported = 0
        self._next_report = 0.0

    async def put(self, messages: Sequence[bytes]) -> None:
        """Hand messages over; waits while earlier ones are not sent."""
        if not self.destination.has_datagrams:
            await self._blocks_in.send(b"".join(message + b"\n" for message in messages))
            return
        for message in messages:
            if len(message) <= MAX_DATAGRAM:
                await self._blocks_in.send(message)
            else:
                self.note_lost(1, "a line is longer than a datagram")

    def note_lost(self, count: int, reason: str) -> None:
        """Count lines that the destination will never get."""
        self.lost += count
        if (now := time.monotonic()) >= self._next_report:
            self._next_report = now + REPORT_INTERVAL
            self._log.warning(
                "lines are lost", destination=str(self.destination), count=self.lost - self._reported,
                reason=reason,
            )  # fmt: skip
            self._reported = self.lost

    async def wait_until_idle(self, quiet: float) -> None:
        """Wait until everything is delivered, and nothing new has come for ``quiet`` seconds."""
        idle = 0.0
        while idle < quiet:
            await trio.sleep(POLL_INTERVAL)
            is_idle = (
                not self._unsent and not self._sent and not self._blocks_out.statistics().tasks_waiting_send
            )
            idle = idle + POLL_INTERVAL if is_idle else 0.0

    async def run(self) -> None:
        """Deliver until cancelled."""
        delays, key = iter(RETRY_BACKOFF), str(self.destination)
        while True:
            if not self._unsent:
                self._unsent.append(await self._blocks_out.receive())
            began = trio.current_time()
            reason = await self._use_connection()
            self._log.once(f"a destination of logs fails: {reason}", key=key, destination=key)
            if trio.current_time() - began > STABLE_AFTER:
                delays = iter(RETRY_BACKOFF)
            await trio.sleep(next(delays))

    async def _use_connection(self) -> str:
        """Deliver over one connection until it fails; why it did."""
        try:
            async with self._open(self.destination) as connection:
                try:
                    return await self._pump(connection)
                finally:
                    self._take_back(connection)
        except FAILURES as error:
            return describe(error)

    async def _pump(self, connection: Connection) -> str:
        reason = "it has closed the connection"

        async def watch() -> None:
            nonlocal reason
            try:
                await connection.watch()
            except FAILURES as error:
                reason = describe(error)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            try:
                while True:
                    while self._unsent:
                        end = await connection.send(self._unsent[0])
                        self._sent.append((end, self._unsent.popleft()))
                        self._forget(connection)
                    self._unsent.append(await self._receive(connection))
            except FAILURES as error:
                reason = describe(error)
                nursery.cancel_scope.cancel()
        return reason

    async def _receive(self, connection: Connection) -> bytes:
        """The next block; meanwhile what has been acknowledged is no longer held."""
        delays = iter(Backoff(POLL_INTERVAL, 5.0))
        while self._sent:
            with trio.move_on_after(next(delays)):
                return await self._blocks_out.receive()
            self._forget(connection)
        return await self._blocks_out.receive()

    def _forget(self, connection: Connection) -> None:
        acknowledged = connection.count_acknowledged()
        while self._sent and self._sent[0][0] <= acknowledged:
            self._sent.popleft()

    def _take_back(self, connection: Connection) -> None:
        """Put what was not acknowledged before what was not sent."""
        with suppress(OSError):  # the kernel has forgotten the connection: all that is held goes once more
            self._forget(connection)
        self._unsent.extendleft(block for _, block in reversed(self._sent))
        self._sent.clear()


def describe(error: BaseException) -> str:
    """What is wrong with a destination, in a few words."""
    while isinstance(error, trio.BrokenResourceError) or (isinstance(error, OSError) and not error.strerror):
        if error.__cause__ is None:
            break
        error = error.__cause__
    if isinstance(error, ExceptionGroup):  # of an address each
        return describe(cast("ExceptionGroup[Exception]", error).exceptions[0])
    match error:
        case trio.TooSlowError():
            return "it takes nothing in time"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not accepted: {error.verify_message}"
        case OSError() if error.strerror:
            return error.strerror.lower()
        case _:
            return str(error) or type(error).__name__
