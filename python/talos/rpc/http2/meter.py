"""How many frames of each kind a peer may send: those that cost it next to nothing are counted."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from talos.rpc.http2.frames import END_HEADERS, END_STREAM, PADDED, ErrorCode, Kind, ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRates:
    """Frames a second of one connection, on average, and as many at once."""

    resets: int = 200
    """Calls that a client may cancel; more than that is an attack (rapid reset)."""

    settings: int = 100
    """Frames with settings, each of which may change the window of every stream. Clients send one or two."""

    control: int = 10_000
    """Frames that carry neither a request nor its data: pings, priorities, empty data, its window."""

    small_data: int = 10_000
    """Frames with little data or with padding, beyond one for each larger one: the end of a message."""


MIN_DATA = 256
"""Bytes of a larger frame of data. Clients send 16 KiB in a frame, but for the end of a message."""

DEFAULT_RATES = FrameRates()


class FloodError(ProtocolError):
    """A peer sends more than it may."""

    code = ErrorCode.ENHANCE_YOUR_CALM


class _Rate:
    """A bound of events in a second, with one second's worth at once."""

    def __init__(self, limit: int, what: str, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._what = what
        self._clock = clock
        self._left = float(limit)
        self._time = clock()

    def count(self) -> None:
        """One more event; FloodError when there are too many."""
        now = self._clock()
        self._left = min(self._limit, self._left + (now - self._time) * self._limit) - 1
        self._time = now
        if self._left < 0:
            raise FloodError(f"more than {self._limit} {self._what} a second")

    def allow_one(self) -> None:
        """One more may come."""
        self._left = min(self._limit, self._left + 1)


class FrameMeter:
    """Counts a connection's frames; FloodError ends it."""

    def __init__(
        self, rates: FrameRates = DEFAULT_RATES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.resets = _Rate(rates.resets, "cancelled calls", clock)
        self.settings = _Rate(rates.settings, "settings", clock)
        self.control = _Rate(rates.control, "control frames", clock)
        self.small_data = _Rate(rates.small_data, "small frames of data", clock)

    def count(self, kind: int, flags: int, number: int, size: int) -> None:
        """Count a frame that has arrived; a window of the connection concerns all of its streams."""
        match kind:
            case Kind.DATA if flags & END_STREAM:
                pass
            case Kind.DATA if size >= MIN_DATA and not flags & PADDED:
                self.small_data.allow_one()
            case Kind.DATA if size:
                self.small_data.count()
            case Kind.WINDOW_UPDATE if number:
                pass
            case Kind.HEADERS | Kind.CONTINUATION if size or flags & END_HEADERS:
                pass
            case Kind.RST_STREAM:
                self.resets.count()
            case Kind.SETTINGS if size:
                self.settings.count()
            case _:
                self.control.count()
