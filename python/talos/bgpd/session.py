"""One connection with a peer as a state machine (RFC 4271, section 8): bytes in, bytes and events out."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from talos.bgpd.messages.framing import KEEPALIVE, Kind, Message, MessageReader, make_message
from talos.bgpd.messages.notification import BgpError, Cease, Code, Notification, parse_notification
from talos.bgpd.messages.open_message import Agreement, Open, agree, parse_open
from talos.bgpd.messages.update import Update, parse_update

OPEN_TIMEOUT = 240.0
"""Seconds in which the peer's OPEN has to come (RFC 4271, section 8.2.2)."""
KEEPALIVES = 3
"""Messages in one hold time."""


class SessionState(enum.IntEnum):
    """The states of RFC 4271; the values are those of ``NethelpersBGPSessionState``."""

    IDLE = 1
    CONNECT = 2
    ACTIVE = 3
    OPEN_SENT = 4
    OPEN_CONFIRM = 5
    ESTABLISHED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What this side opens a session with. ``peer_asn`` is 0 for any."""

    local_asn: int
    peer_asn: int
    router_id: IPv4Address
    hold_time: int


class SessionEvent(enum.Enum):
    """Events without further data."""

    OPENED = enum.auto()
    """The peer's OPEN has come: the moment to choose between two connections."""
    ESTABLISHED = enum.auto()
    REFRESH = enum.auto()
    """The peer wants all routes once more."""


type Event = SessionEvent | Update


class Session:
    """A connection from its first byte on. Times are seconds of any clock that does not go back."""

    def __init__(self, settings: SessionSettings, now: float) -> None:
        self.state = SessionState.OPEN_SENT
        self.agreement: Agreement | None = None
        self.ending = ""
        """Why the session is over; empty while it is not."""
        self._open = Open(asn=settings.local_asn, hold_time=settings.hold_time, router_id=settings.router_id)
        self._peer_asn = settings.peer_asn
        self._reader = MessageReader()
        self._outgoing = bytearray(make_message(Kind.OPEN, self._open.format()))
        self._expires = now + OPEN_TIMEOUT
        self._keepalive_due = float("inf")

    @property
    def deadline(self) -> float:
        """When :meth:`tick` has something to do next."""
        return min(self._expires, self._keepalive_due)

    @property
    def has_outgoing(self) -> bool:
        """Whether there is something to send."""
        return bool(self._outgoing)

    def take_outgoing(self) -> bytes:
        """What is to be sent now."""
        data = bytes(self._outgoing)
        self._outgoing.clear()
        return data

    def send(self, body: bytes) -> None:
        """Queue an UPDATE."""
        self._outgoing += make_message(Kind.UPDATE, body)

    def close(self, notification: Notification, reason: str = "") -> None:
        """End the session, unless it is over; the notification is what is left to be sent."""
        if not self.ending:
            self._outgoing += make_message(Kind.NOTIFICATION, notification.format())
            self._end(reason or f"{notification} (sent)")

    def mark_lost(self, reason: str) -> None:
        """The connection is gone."""
        self._outgoing.clear()
        self._end(reason)

    def _end(self, reason: str) -> None:
        self.ending = self.ending or reason
        self.state = SessionState.IDLE
        self._expires = self._keepalive_due = float("inf")

    def tick(self, now: float) -> None:
        """Do what is due: send a keepalive, or end a session whose hold time is over."""
        if now >= self._expires:
            self.close(Notification(code=Code.HOLD_TIMER_EXPIRED))
        elif now >= self._keepalive_due:
            self._send_keepalive(now)

    def receive(self, data: bytes, now: float) -> Iterator[Event]:
        """The events of received bytes; none after the session's end."""
        messages = self._reader.receive(data)
        while not self.ending:
            try:
                message = next(messages, None)
                if message is None:
                    return
                event = self._handle(message, now)
            except BgpError as error:
                self.close(error.notification)
                return
            if event is not None:
                yield event

    def _handle(self, message: Message, now: float) -> Event | None:
        if message.kind is Kind.NOTIFICATION:
            self.mark_lost(f"{parse_notification(message.body)} (received)")
            return None
        match self.state, message.kind:
            case SessionState.OPEN_SENT, Kind.OPEN:
                return self._handle_open(message.body, now)
            case SessionState.OPEN_CONFIRM, Kind.KEEPALIVE:
                self.state = SessionState.ESTABLISHED
                self._restart_hold(now)
                return SessionEvent.ESTABLISHED
            case SessionState.ESTABLISHED, Kind.KEEPALIVE:
                self._restart_hold(now)
                return None
            case SessionState.ESTABLISHED, Kind.UPDATE:
                self._restart_hold(now)
                assert self.agreement is not None
                return parse_update(message.body, self.agreement)
            case SessionState.ESTABLISHED, Kind.ROUTE_REFRESH:
                return SessionEvent.REFRESH
            case _:
                # The subcodes of RFC 6608: unexpected in OpenSent, OpenConfirm, Established.
                raise BgpError(Code.STATE_MACHINE, self.state - SessionState.OPEN_SENT + 1)

    def _handle_open(self, body: bytes, now: float) -> Event:
        self.agreement = agree(self._open, parse_open(body), self._peer_asn)
        self.state = SessionState.OPEN_CONFIRM
        self._send_keepalive(now)
        self._restart_hold(now)
        return SessionEvent.OPENED

    def _restart_hold(self, now: float) -> None:
        assert self.agreement is not None
        hold_time = self.agreement.hold_time
        self._expires = now + hold_time if hold_time else float("inf")

    def _send_keepalive(self, now: float) -> None:
        assert self.agreement is not None
        self._outgoing += KEEPALIVE
        hold_time = self.agreement.hold_time
        self._keepalive_due = now + hold_time / KEEPALIVES if hold_time else float("inf")


def wins_collision(own_id: IPv4Address, own_asn: int, agreement: Agreement, *, is_own: bool) -> bool:
    """Whether of two connections that exist at once this one stays (RFC 4271, section 6.8; RFC 6286).

    That which the side with the larger identifier has made; ``is_own``: this side has made this one.
    """
    is_larger = (own_id, own_asn) > (agreement.router_id, agreement.peer_asn)
    return is_larger == is_own


COLLISION = Notification(code=Code.CEASE, subcode=Cease.COLLISION)
