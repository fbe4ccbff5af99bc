"""A session on a TCP connection: its reads, its writes and its timers."""

from collections.abc import Callable
from typing import Protocol

import trio

from talos.bgpd.messages.notification import Notification
from talos.bgpd.rib.announcer import Announcer
from talos.bgpd.rib.paths import Source
from talos.bgpd.session import Event, Session
from talos.system.wakeup import Wakeup

RECEIVE_BYTES = 1 << 16
SEND_TIMEOUT = 90.0
"""Seconds in which the peer has to read; a default hold time."""
CLOSE_TIMEOUT = 1.0
"""Seconds for the last message of a session that this side ends."""


class Handler(Protocol):
    """The neighbour, as its connections see it."""

    def handle(self, connection: "Connection", event: Event) -> None:
        """Something has happened in the session."""
        ...


class Connection:
    """One of a neighbour's connections. ``is_own``: this side has made it."""

    def __init__(self, stream: trio.SocketStream, session: Session, *, is_own: bool) -> None:
        self.session = session
        self.is_own = is_own
        self.source: Source | None = None
        self.announcer: Announcer | None = None
        """Both once the session is established."""
        self.has_problem = False
        """An UPDATE of it was malformed, which the log has: what a peer sends could be a line each."""
        self.stream = stream
        self.nursery: trio.Nursery | None = None
        """Tasks that end with the session."""
        self._wakeup = Wakeup()

    def wake(self) -> None:
        """Have queued messages sent."""
        self._wakeup.set()

    def close(self, notification: Notification, reason: str = "") -> None:
        """End the session."""
        self.session.close(notification, reason)
        self.wake()

    async def run(self, handler: Handler, last_notification: Callable[[], Notification]) -> None:
        """Serve the session until it is over; when cancelled, it ends with the last notification."""
        try:
            async with trio.open_nursery() as nursery:
                self.nursery = nursery
                nursery.start_soon(self._read, handler, nursery.cancel_scope)
                await self._write()
                nursery.cancel_scope.cancel()
        finally:
            self.session.close(last_notification())
            with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await self._send(self.session.take_outgoing())
            await trio.aclose_forcefully(self.stream)

    async def _read(self, handler: Handler, scope: trio.CancelScope) -> None:
        session = self.session
        while not session.ending:
            try:
                data = await self.stream.receive_some(RECEIVE_BYTES)
            except trio.BrokenResourceError:
                data = b""
            if not data:
                session.mark_lost("the peer has closed the connection")
            for event in session.receive(data, trio.current_time()):
                handler.handle(self, event)
            self.wake()
        if not session.has_outgoing:
            scope.cancel()

    async def _write(self) -> None:
        session = self.session
        while True:
            self._wakeup.clear()
            session.tick(trio.current_time())
            if not session.ending and not session.has_outgoing and self.announcer is not None:
                for body in self.announcer.take():
                    session.send(body)
            if session.has_outgoing:
                await self._send(session.take_outgoing())
            elif session.ending:
                return
            else:
                with trio.move_on_at(session.deadline):
                    await self._wakeup.wait()

    async def _send(self, data: bytes) -> None:
        if not data:
            return
        with trio.move_on_after(SEND_TIMEOUT) as waiting:
            try:
                await self.stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.session.mark_lost("the connection is broken")
        if waiting.cancelled_caught:
            self.session.mark_lost("the peer reads nothing")
