"""Flow control of a port's connections: how much a client may send before a handler reads it."""

from collections.abc import Callable

import h2.connection

STREAM_WINDOW = 65535
"""Initial window of a stream, in bytes: all that a call may send before its handler reads."""

CONNECTION_WINDOW = 65535 * 16
"""Initial window of a connection, in bytes (as upstream)."""

UNREAD_LIMIT = 4 * 1024 * 1024
"""Data of one connection that no handler has read, before the client has to wait."""


class ReceiveFlow:
    """The windows of one connection that its client may fill.

    A stream's window opens as its handler reads. The connection's opens at once, so that one
    slow handler does not stall the others, unless too much is unread.
    """

    def __init__(self, connection: h2.connection.H2Connection, is_open: Callable[[], bool]) -> None:
        self._h2 = connection
        self._is_open = is_open
        self._unread = 0
        self._owed = 0
        self._owed_to: dict[int, int] = {}

    def arrive(self, stream: int, size: int, padding: int) -> None:
        """Data arrived for a handler, with padding that is dropped."""
        self._unread += size
        self._owed += size + padding
        if padding:
            self._owed_to[stream] = self._owed_to.get(stream, 0) + padding
        self._open_connection()

    def ignore(self, size: int) -> None:
        """Data arrived that no handler reads."""
        self._owed += size
        self._open_connection()

    def widen(self, stream: int, size: int) -> None:
        """Open a stream's window by ``size`` bytes for a large request."""
        self._open_stream(stream, size)

    def take(self, stream: int, size: int) -> None:
        """A handler has read ``size`` bytes."""
        self._unread -= size
        self._owed_to[stream] = owed = self._owed_to.get(stream, 0) + size
        if owed >= STREAM_WINDOW // 2 and self._open_stream(stream, owed):
            self._owed_to[stream] = 0
        self._open_connection()

    def forget(self, stream: int, size: int) -> None:
        """A stream has ended, and so much of what came was not read."""
        self._unread -= size
        self._owed_to.pop(stream, None)
        self._open_connection()

    def close(self) -> None:
        """The connection has ended."""
        self._is_open = _never

    def _open_stream(self, stream: int, size: int) -> bool:
        known = self._h2.streams.get(stream)
        if not self._is_open() or known is None or not known.open:
            return False
        self._h2.increment_flow_control_window(size, stream)
        return True

    def _open_connection(self) -> None:
        if self._owed >= CONNECTION_WINDOW // 2 and self._unread <= UNREAD_LIMIT and self._is_open():
            owed, self._owed = self._owed, 0
            self._h2.increment_flow_control_window(owed)


def _never() -> bool:
    return False
