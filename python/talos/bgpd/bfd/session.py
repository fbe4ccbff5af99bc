"""A BFD session in asynchronous mode (RFC 5880, section 6.8): packets and times in, packets out."""

import random
from dataclasses import dataclass
from typing import Self

from talos.bgpd.bfd.packet import Diagnostic, Packet, State

_SECOND = 1_000_000
INTERVAL = _SECOND
"""Microseconds between packets unless configured, and the fewest while the session is not up."""
MIN_INTERVAL = 10_000
"""Microseconds; more than a hundred packets per second are not this daemon's work."""
MULTIPLIER = 3
_NEVER = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """The config of a session. Intervals are in microseconds."""

    transmit: int
    receive: int
    multiplier: int

    @classmethod
    def make(cls, *, transmit: int, receive: int, multiplier: int) -> Self:
        """With defaults for what is 0, within what is possible."""
        return cls(
            transmit=max(transmit, MIN_INTERVAL) if transmit else INTERVAL,
            receive=max(receive, MIN_INTERVAL) if receive else INTERVAL,
            multiplier=multiplier or MULTIPLIER,
        )


class BfdSession:
    """One session. Times are seconds of any clock that does not go back."""

    def __init__(self, timers: Timers, discriminator: int, now: float) -> None:
        self.state = State.DOWN
        self.has_failed = False
        """It was up, and the peer does not answer or has reported a failure."""
        self.discriminator = discriminator
        self._timers = timers
        self._diagnostic = Diagnostic.NONE
        self._peer: Packet | None = None
        self._is_polling = self._owes_final = False
        self._send_at = now
        self._expires = _NEVER

    @property
    def deadline(self) -> float:
        """When :meth:`tick` has something to do next."""
        return min(self._send_at, self._expires)

    def receive(self, packet: Packet, now: float) -> None:
        """Take a packet that :func:`talos.bgpd.bfd.packet.parse_packet` has accepted."""
        if packet.your_discriminator not in {0, self.discriminator}:
            return
        self._peer = packet
        if packet.is_final:
            self._is_polling = False
        self._change(packet)
        if packet.is_poll:
            self._owes_final = True
            self._send_at = now
        self._expires = now + self._detection_time(packet)
        self._send_at = min(self._send_at, now + self._interval())

    def _change(self, packet: Packet) -> None:
        match self.state, packet.state:
            case ((State.INIT | State.UP), State.ADMIN_DOWN):
                self._go_down(Diagnostic.NEIGHBOR_DOWN, is_failure=False)
            case State.UP, State.DOWN:
                self._go_down(Diagnostic.NEIGHBOR_DOWN, is_failure=True)
            case State.DOWN, State.DOWN:
                self.state = State.INIT
            case (State.DOWN, State.INIT) | (State.INIT, State.INIT | State.UP):
                self.state, self._diagnostic, self.has_failed = State.UP, Diagnostic.NONE, False
                self._is_polling = True  # the intervals are others from here on
            case _:
                pass

    def _go_down(self, diagnostic: Diagnostic, *, is_failure: bool) -> None:
        self.has_failed = is_failure and self.state is State.UP
        self.state, self._diagnostic, self._is_polling = State.DOWN, diagnostic, False

    def tick(self, now: float) -> bytes:
        """Let time pass; the packet that is to be sent now, empty when there is none."""
        if now >= self._expires:
            self._expires = _NEVER
            self._peer = None
            if self.state is not State.DOWN:
                self._go_down(Diagnostic.TIME_EXPIRED, is_failure=True)
        if now < self._send_at:
            return b""
        packet = self._make_packet()
        self._owes_final = False
        self._send_at = now + self._interval()
        return packet.format()

    def _make_packet(self) -> Packet:
        return Packet(
            state=self.state,
            diagnostic=self._diagnostic,
            is_poll=self._is_polling and not self._owes_final,
            is_final=self._owes_final,
            multiplier=self._timers.multiplier,
            own_discriminator=self.discriminator,
            your_discriminator=self._peer.own_discriminator if self._peer else 0,
            transmit_interval=self._transmit_interval(),
            receive_interval=self._timers.receive,
        )

    def _transmit_interval(self) -> int:
        """At least a second while the session is not up (section 6.8.3)."""
        return self._timers.transmit if self.state is State.UP else max(self._timers.transmit, INTERVAL)

    def _interval(self) -> float:
        """Seconds until the next packet, a quarter less at random (section 6.8.7)."""
        if self._peer and not self._peer.receive_interval:
            return _NEVER
        interval = max(self._transmit_interval(), self._peer.receive_interval if self._peer else 0)
        most = 0.9 if self._timers.multiplier == 1 else 1.0
        return interval / _SECOND * random.uniform(0.75, most)  # noqa: S311 - no secret

    def _detection_time(self, packet: Packet) -> float:
        return packet.multiplier * max(self._timers.receive, packet.transmit_interval) / _SECOND
