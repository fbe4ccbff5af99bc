"""The frames of a client as they arrive, measured before h2 keeps any of their bytes.

h2 looks at a frame when all of it has arrived and at headers when all of their frames have, and
takes as many cancelled calls and pings as are sent.
"""

import time
from collections.abc import Callable

import h2.errors
import h2.exceptions

from talos.rpc.port.limits import CONTROL_FRAMES_PER_SECOND, MAX_FRAME, RESETS_PER_SECOND

_PREFACE = 24
_HEAD = 9  # of a frame: three bytes of length, type, flags, four of the stream
_DATA, _HEADERS, _RESET, _WINDOW_UPDATE, _CONTINUATION = 0x0, 0x1, 0x3, 0x8, 0x9
_END_HEADERS = 0x4


class FloodError(h2.exceptions.ProtocolError):
    """A client sends more than it may."""

    error_code = h2.errors.ErrorCodes.ENHANCE_YOUR_CALM


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
    """Follows a connection's frames; FloodError ends it.

    ``header_size`` bounds the compressed headers of a request, in bytes.
    """

    def __init__(self, header_size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._header_size = header_size
        self._skip = _PREFACE
        self._head = bytearray()
        self._headers = 0
        self._resets = _Rate(RESETS_PER_SECOND, "cancelled calls", clock)
        self._control = _Rate(CONTROL_FRAMES_PER_SECOND, "control frames", clock)

    def feed(self, data: bytes) -> None:
        """Measure data as it arrives."""
        position, size = 0, len(data)
        while position < size:
            if self._skip:
                step = min(self._skip, size - position)
                self._skip -= step
                position += step
                continue
            if not self._head and size - position >= _HEAD:
                self._begin(data[position : position + _HEAD])
                position += _HEAD
                continue
            missing = _HEAD - len(self._head)
            self._head += data[position : position + missing]
            position += missing
            if len(self._head) == _HEAD:
                self._begin(bytes(self._head))
                self._head.clear()

    def _begin(self, head: bytes) -> None:
        length = int.from_bytes(head[:3])
        if length > MAX_FRAME:
            raise FloodError(f"a frame of {length} bytes, at most {MAX_FRAME} are allowed")
        self._skip = length
        kind, flags = head[3], head[4]
        if kind in {_HEADERS, _CONTINUATION}:
            self._headers += length
            if self._headers > self._header_size:
                raise FloodError(f"headers of more than {self._header_size} bytes")
            if flags & _END_HEADERS:
                self._headers = 0
            elif not length:
                self._control.count()
        elif kind == _RESET:
            self._resets.count()
        elif kind not in {_DATA, _WINDOW_UPDATE} or not length:
            self._control.count()
