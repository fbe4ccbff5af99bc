"""One neighbour: where it is, its connections one after the other, and what becomes of a session."""

import random
import time
from collections.abc import Iterable
from typing import Protocol, override

import trio

from talos.bgpd.bfd.port import BfdPort
from talos.bgpd.bfd.session import BfdSession
from talos.bgpd.connection import Connection, Handler
from talos.bgpd.messages.notification import Cease, Code, Notification
from talos.bgpd.messages.prefixes import Address, Network
from talos.bgpd.messages.update import Update
from talos.bgpd.neighbor_address import find_neighbor_address
from talos.bgpd.rib.announcer import Announcer
from talos.bgpd.rib.table import PrefixLimitError, Rib
from talos.bgpd.session import (
    COLLISION,
    Event,
    Session,
    SessionEvent,
    SessionSettings,
    SessionState,
    wins_collision,
)
from talos.bgpd.settings import InstanceSettings, NeighborSettings
from talos.bgpd.views import make_views
from talos.bgpd.wire.scoped_address import ScopedAddress
from talos.bgpd.wire.streams import CONNECT_TIMEOUT, dial, find_own_address, limit_hops
from talos.system.backoff import Backoff
from talos.system.logging import Log
from talos.system.wakeup import Signal

RETRY_BACKOFF = Backoff(5.0, CONNECT_TIMEOUT)
"""Seconds between connections, a quarter less at random (RFC 4271, section 10)."""
LIMIT_DELAY = 900.0
"""Seconds before a peer with too many prefixes is tried again."""
ACCEPT_INTERVAL = 1.0
"""Seconds between the end of a connection that the peer has made and the next: each is lines in the log."""
MAX_CONNECTIONS = 2
"""One that each side has made, until one of them is chosen."""
SHUTDOWN = Notification(code=Code.CEASE, subcode=Cease.SHUTDOWN)


class Speaker(Protocol):
    """The instance, as its neighbours see it."""

    settings: InstanceSettings
    rib: Rib

    def notify(self) -> None:
        """Routes or a state have changed."""
        ...


class Neighbor(Handler):
    """A neighbour of an instance. ``since`` is when it came up or went down last, seconds since the epoch."""

    def __init__(self, settings: NeighborSettings, speaker: Speaker, bfd: BfdPort, log: Log) -> None:
        self.settings = settings
        self.peer: ScopedAddress | None = None
        """Where it is, once that is known."""
        self.since: float | None = None
        self.bfd_state = ""
        self.last_notification = SHUTDOWN
        """What its session ends with when it is cancelled."""
        self._speaker = speaker
        self._bfd = bfd
        self._log = log
        self._idle_state = SessionState.IDLE
        self._connections: list[Connection] = []
        self._changed = Signal()
        self._held_until = self._accept_from = 0.0
        self._nursery: trio.Nursery | None = None

    @property
    def label(self) -> str:
        """Its address; a link-local one with its link."""
        if self.peer is None:
            return self.settings.link
        return f"{self.peer.address}%{self.settings.link}" if self.peer.scope else str(self.peer.address)

    @property
    def best(self) -> Connection | None:
        """The connection that has come farthest."""
        return max(self._connections, key=lambda item: item.session.state, default=None)

    @property
    def state(self) -> SessionState:
        """Of what it has."""
        return self.best.session.state if self.best else self._idle_state

    async def run(self) -> None:
        """Keep a session with it until cancelled."""
        async with trio.open_nursery() as self._nursery:
            delays = iter(RETRY_BACKOFF)
            while True:
                self._show(SessionState.IDLE)
                await trio.sleep_until(self._held_until)
                self.peer = await find_neighbor_address(self.settings, self._list_own, self._log)
                if self.settings.is_passive:
                    self._show(SessionState.ACTIVE)
                    await self._wait_for_session()
                    continue
                if await self._dial(self.peer):
                    delays = iter(RETRY_BACKOFF)
                self._show(SessionState.ACTIVE)
                with trio.move_on_after(next(delays) * random.uniform(0.75, 1.0)):  # noqa: S311 - no secret
                    await self._wait_for_session()
                while self._connections:
                    await self._changed.wait()

    def _show(self, state: SessionState) -> None:
        self._idle_state = state
        self._notify()

    def _notify(self) -> None:
        self._changed.notify()
        self._speaker.notify()

    async def _wait_for_session(self) -> None:
        """Until the peer has made a connection, and that is over."""
        while not self._connections:
            await self._changed.wait()
        while self._connections:
            await self._changed.wait()

    def _list_own(self) -> set[Address]:
        link = self.settings.link
        return {interface.ip for name, interface in self._speaker.settings.addresses if name == link}

    def _is_external(self) -> bool:
        return self.settings.peer_asn != self.settings.local_asn

    async def _dial(self, peer: ScopedAddress) -> bool:
        """Make a connection; whether it came to a session."""
        self._show(SessionState.CONNECT)
        try:
            stream = await dial(peer, self._speaker.settings.identity.vrf, is_external=self._is_external())
        except OSError as error:
            self._log.once(f"no connection to {self.label}: {error.strerror or error}", key=self.label)
            return False
        if len(self._connections) >= MAX_CONNECTIONS or self.state is SessionState.ESTABLISHED:
            await trio.aclose_forcefully(stream)
            return False
        return await self._run_session(stream, is_own=True)

    def accept(self, stream: trio.SocketStream) -> bool:
        """Take a connection that the peer has made, unless there is one or it is too early."""
        is_held = trio.current_time() < max(self._held_until, self._accept_from)
        if self._nursery is None or is_held or self.state is SessionState.ESTABLISHED:
            return False
        if len(self._connections) >= MAX_CONNECTIONS or any(not item.is_own for item in self._connections):
            return False
        if self._is_external():
            limit_hops(stream.socket)
        self._nursery.start_soon(self._accept, stream)
        return True

    async def _accept(self, stream: trio.SocketStream) -> None:
        await self._run_session(stream, is_own=False)

    async def _run_session(self, stream: trio.SocketStream, *, is_own: bool) -> bool:
        """Run a session to its end; whether it was established."""
        settings = SessionSettings(
            local_asn=self.settings.local_asn,
            peer_asn=self.settings.peer_asn,
            router_id=self._speaker.settings.identity.router_id,
            hold_time=self.settings.hold_time,
        )
        connection = Connection(stream, Session(settings, trio.current_time()), is_own=is_own)
        self._connections.append(connection)
        self._notify()
        try:
            await connection.run(self, lambda: self.last_notification)
        finally:
            self._connections.remove(connection)
            self._end(connection)
        return connection.announcer is not None

    def _end(self, connection: Connection) -> None:
        reason = connection.session.ending
        if not connection.is_own:
            self._accept_from = trio.current_time() + ACCEPT_INTERVAL
        if connection.source is None:
            self._log.once(f"no session with {self.label}: {reason}", key=self.label)
        else:
            self._log.info(f"session with {self.label} is over: {reason}")
            self._speaker.rib.remove_source(connection.source)
            self.since, self.bfd_state = time.time(), ""
        self._notify()

    @override
    def handle(self, connection: Connection, event: Event) -> None:
        """Take an event of a session."""
        match event:
            case SessionEvent.OPENED:
                self._settle_collision(connection)
            case SessionEvent.ESTABLISHED:
                self._establish(connection)
            case SessionEvent.REFRESH if connection.announcer is not None:
                connection.announcer.refresh()
            case Update():
                self._apply(connection, event)
            case _:
                pass

    def _settle_collision(self, connection: Connection) -> None:
        agreement = connection.session.agreement
        assert agreement is not None
        for other in self._connections:
            if other is connection or other.session.state < SessionState.OPEN_CONFIRM:
                continue
            own_id = self._speaker.settings.identity.router_id
            stays = other.session.state is not SessionState.ESTABLISHED and wins_collision(
                own_id, self.settings.local_asn, agreement, is_own=connection.is_own
            )
            (other if stays else connection).close(COLLISION)
        self._notify()

    def _establish(self, connection: Connection) -> None:
        agreement, local = connection.session.agreement, find_own_address(connection.stream)
        assert agreement is not None
        if local is None or self.peer is None:
            return  # the connection is gone, which is read next
        connection.source, context = make_views(
            self.settings, self._speaker.settings, agreement, local=local, peer=self.peer
        )
        self._speaker.rib.add_source(connection.source)
        connection.announcer = Announcer(self._speaker.rib, context)
        self.since = time.time()
        self._log.info(f"session with {self.label} is established", asn=agreement.peer_asn)
        if connection.nursery is not None and self.settings.bfd is not None:
            connection.nursery.start_soon(self._watch_bfd, connection, local, self.peer)
        self._notify()

    async def _watch_bfd(self, connection: Connection, local: ScopedAddress, peer: ScopedAddress) -> None:
        def notify(session: BfdSession) -> None:
            self.bfd_state = session.state.name.lower()
            if session.has_failed:
                connection.close(Notification(code=Code.CEASE, subcode=Cease.BFD_DOWN))
            self._notify()

        assert self.settings.bfd is not None
        try:
            await self._bfd.run(self.settings.bfd, local, peer, notify)
        except OSError as error:
            self._log.warning(f"no BFD with {self.label}: {error.strerror or error}")

    def _apply(self, connection: Connection, update: Update) -> None:
        if update.problem and not connection.has_problem:
            connection.has_problem = True
            self._log.once(f"an UPDATE of {self.label} is taken as a withdrawal: {update.problem}")
        assert connection.source is not None
        try:
            self._speaker.rib.apply(connection.source, update)
        except PrefixLimitError as error:
            self._held_until = trio.current_time() + LIMIT_DELAY
            reason = f"it announces {error}; it is tried again in {LIMIT_DELAY:.0f} s"
            connection.close(Notification(code=Code.CEASE, subcode=Cease.MAX_PREFIXES), reason)
        self._speaker.notify()

    def announce(self, networks: Iterable[Network]) -> None:
        """Send the peer these anew."""
        for connection in self._connections:
            if connection.announcer is not None:
                connection.announcer.queue(networks)
                connection.wake()
