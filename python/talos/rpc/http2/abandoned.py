"""Streams that this side has ended and its peer has not: frames of them that come late are ignored."""

from talos.rpc.http2.frames import StreamClosedError
from talos.rpc.http2.rules import count_body

MAX_ABANDONED = 256
"""Streams ended here before their peer had, whose late frames are ignored; so are those of earlier ones."""


class AbandonedStreams:
    """Of one connection. A frame of a stream that its sender has ended itself is an error."""

    def __init__(self) -> None:
        self._body_left: dict[int, int | None] = {}
        """By stream, the bytes that are to come of a body whose length was announced."""
        self._last_dropped = 0

    def __contains__(self, number: int) -> bool:
        return number in self._body_left

    def add(self, number: int, body_left: int | None) -> None:
        """Note a stream that was ended here."""
        self._body_left[number] = body_left
        if len(self._body_left) > MAX_ABANDONED:
            oldest = next(iter(self._body_left))
            del self._body_left[oldest]
            self._last_dropped = max(self._last_dropped, oldest)

    def remove(self, number: int) -> None:
        """Note that the peer has ended a stream, too."""
        self._body_left.pop(number, None)

    def check(self, number: int) -> None:
        """StreamClosedError unless a stream that is not open was ended here."""
        if number not in self._body_left and number > self._last_dropped:
            raise StreamClosedError(f"a frame of stream {number}, which its sender has ended")

    def take_data(self, number: int, size: int, *, ended: bool) -> None:
        """Ignore late data; StreamClosedError, ProtocolError when the body is not as long as announced."""
        self.check(number)
        if (left := self._body_left.get(number)) is not None:
            self._body_left[number] = count_body(left, size, ended=ended)
        if ended:
            self.remove(number)
