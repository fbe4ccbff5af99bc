"""The delivery to one destination: in order, again after a failure, with what was lost counted.

A block of messages is held until the destination's kernel has acknowledged it, and sent again on the next
connection when that did not happen. A connection that breaks off instead of being closed may take with it
what was acknowledged but not read, such as in a load balancer without a server: the last seconds of it are
sent again, too. A destination may get lines twice, but none is lost on the way to it. What it does not take
stays in the rings of PID 1, which drop the oldest lines and count them.
"""

import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import cast

import trio

from talos.logd.destination import FAILURES, Connection, Destination, open_connection
from talos.system.backoff import Backoff
from talos.system.logging import Log
from talos.system.wakeup import Wakeup

RETRY_BACKOFF = Backoff(0.5, 30.0)
"""Seconds until a destination that failed is tried again."""
SETTLED_AFTER = 2.0
"""Seconds after which a block that was acknowledged is no longer held."""
MAX_HELD = 256 * 1024
"""Bytes that are held although they were acknowledged: of more the oldest count as taken."""
MAX_ENDS = 5
"""Connections that may break off at the same block: then it is given up, since others wait behind it."""
STABLE_AFTER = 30.0
"""Seconds of a connection, after which the next failure counts as the first."""
REPORT_INTERVAL = 60.0
"""Seconds between two lines of our own log about lost ones."""
MAX_DATAGRAM = 65507
"""Bytes: RFC 768, over IPv4."""
POLL_INTERVAL = 0.1
"""Seconds between looks whether all is delivered, at a shutdown only."""

type Open = Callable[[Destination], AbstractAsyncContextManager[Connection]]


@dataclass(frozen=True, slots=True)
class Sent:
    """A block, where it ends in the connection's bytes, and since when it is on the way."""

    end: int
    block: bytes
    since: float


class Delivery:
    """Sends messages to one destination; :meth:`run` has to run in a task."""

    def __init__(self, destination: Destination, log: Log, open: Open = open_connection) -> None:
        self.destination = destination
        self.lost = 0
        self._log = log
        self._open = open
        self._blocks_in, self._blocks_out = trio.open_memory_channel[bytes](0)
        self._unsent: deque[bytes] = deque()
        self.sent: deque[Sent] = deque()
        """What is on the way, in order."""
        self._acknowledged = 0
        self._is_closed = False
        """Whether the destination has closed the connection, as it does when it has read everything."""
        self._suspect = b""
        """The first block that the last connection had not settled when it broke off."""
        self._ends = 0
        self._reason = ""
        self._has_lost = Wakeup()

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
        self._reason = reason
        self._has_lost.set()

    async def wait_until_idle(self, quiet: float) -> None:
        """Wait until everything is delivered, and nothing new has come for ``quiet`` seconds."""
        idle = 0.0
        while idle < quiet:
            await trio.sleep(POLL_INTERVAL)
            is_taken = not self._unsent and all(one.end <= self._acknowledged for one in self.sent)
            is_idle = is_taken and not self._blocks_out.statistics().tasks_waiting_send
            idle = idle + POLL_INTERVAL if is_idle else 0.0

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._report_losses)
            await self._deliver()

    async def _report_losses(self) -> None:
        reported = 0
        while True:
            await self._has_lost.wait()
            count, reported = self.lost - reported, self.lost
            self._log.warning(
                "lines are lost", destination=str(self.destination), count=count, reason=self._reason
            )
            await trio.sleep(REPORT_INTERVAL)

    async def _deliver(self) -> None:
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
                self._is_closed = True
            except FAILURES as error:
                reason = describe(error)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            self._is_closed = False
            try:
                while True:
                    while self._unsent:
                        end = await connection.send(self._unsent[0])
                        self.sent.append(Sent(end, self._unsent.popleft(), trio.current_time()))
                        self._forget(connection)
                    self._unsent.append(await self._receive(connection))
            except FAILURES as error:
                reason = describe(error)
                nursery.cancel_scope.cancel()
        return reason

    async def _receive(self, connection: Connection) -> bytes:
        """The next block; meanwhile what has been acknowledged is no longer held."""
        delays = iter(Backoff(POLL_INTERVAL, 5.0))
        while self.sent:
            with trio.move_on_after(next(delays)):
                return await self._blocks_out.receive()
            self._forget(connection)
        return await self._blocks_out.receive()

    def _forget(self, connection: Connection) -> None:
        """Hold no longer what is acknowledged and settled, or too much."""
        self._acknowledged = connection.count_acknowledged()
        settled = trio.current_time() - SETTLED_AFTER
        while self.sent and self.sent[0].end <= self._acknowledged:
            first = self.sent[0]
            if not self._is_closed and first.since > settled and self._acknowledged - first.end < MAX_HELD:
                return
            self.sent.popleft()

    def _take_back(self, connection: Connection) -> None:
        """Put what may not have arrived before what was not sent."""
        try:
            self._forget(connection)
        except OSError:  # the kernel has forgotten the connection: all that is held goes once more
            self._acknowledged = 0
        self._give_up()
        self._unsent.extendleft(one.block for one in reversed(self.sent))
        self.sent.clear()
        self._acknowledged = 0

    def _give_up(self) -> None:
        """Drop a block at which connections break off again and again: the receiver may fail at it."""
        if not self.sent or self.sent[0].end > self._acknowledged:
            return  # it may never have arrived
        block = self.sent[0].block
        self._ends = self._ends + 1 if block is self._suspect else 1
        self._suspect = block
        if self._ends >= MAX_ENDS:
            self.sent.popleft()
            self._suspect = b""
            count = 1 if self.destination.has_datagrams else block.count(b"\n")
            self.note_lost(count, f"{MAX_ENDS} connections have broken off at them")


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
