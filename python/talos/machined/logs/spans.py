"""Which bytes of a log are where in its files."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from talos.api.internal.feed_pb2 import LogPlace

MAX_SPANS = 256
"""Of one log. Each gap and each rotation begins another one; then the oldest is forgotten."""


@dataclass(slots=True, kw_only=True)
class Span:
    """Bytes of a log that follow each other in one of its files."""

    start: int
    """The position in the log."""
    lines: int
    """How many lines of the log are before it."""
    size: int
    generation: int
    """Which file: how often the log was rotated before."""
    offset: int
    """The position in the file."""

    @property
    def end(self) -> int:
        """The position in the log behind it."""
        return self.start + self.size


class Spans:
    """The spans of a log, the oldest first."""

    def __init__(self) -> None:
        self._spans: deque[Span] = deque(maxlen=MAX_SPANS)

    def add(self, place: LogPlace, size: int, *, generation: int, offset: int) -> None:
        """Note that bytes of the log, the newest so far, are in a file."""
        last = self._spans[-1] if self._spans else None
        if (
            last is not None
            and last.generation == generation
            and last.end == place.bytes
            and last.offset + last.size == offset
        ):
            last.size += size
            return
        self._spans.append(
            Span(start=place.bytes, lines=place.lines, size=size, generation=generation, offset=offset)
        )

    def forget(self, before: int) -> None:
        """Forget files of earlier generations, which are no longer there."""
        while self._spans and self._spans[0].generation < before:
            self._spans.popleft()

    def find(self, position: int) -> Iterator[Span]:
        """The span with a position of the log, or the one behind it, and those that follow."""
        return (span for span in self._spans if span.end > position)
