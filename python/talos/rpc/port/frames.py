"""How many frames of each kind a client may send: those that cost it next to nothing are counted."""

import time
from collections.abc import Callable

from talos.rpc.http2.frames import END_HEADERS, ErrorCode, Kind, ProtocolError
from talos.rpc.port.limits import CONTROL_FRAMES_PER_SECOND, RESETS_PER_SECOND, SETTINGS_PER_SECOND


class FloodError(ProtocolError):
    """A client sends more than it may."""

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
        self._left -= 1
        if self._left >= 0:
            return
        now = self._clock()
        self._left = min(self._limit, self._left + (now - self._time) * self._limit)
        self._time = now
        if self._left < 0:
            raise FloodError(f"more than {self._limit} {self._what} a second")


class FrameMeter:
    """Counts a connection's frames; FloodError ends it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.resets = _Rate(RESETS_PER_SECOND, "cancelled calls", clock)
        self.settings = _Rate(SETTINGS_PER_SECOND, "settings", clock)
        self.control = _Rate(CONTROL_FRAMES_PER_SECOND, "control frames", clock)

    def count(self, kind: int, flags: int, number: int, size: int) -> None:
        """Count a frame that has arrived; a window of the connection concerns all of its streams."""
        match kind:
            case Kind.DATA if size:
                pass
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
