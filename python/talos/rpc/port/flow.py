"""How much a client may send before somebody here takes it up."""

from collections.abc import Callable
from dataclasses import dataclass

import h2.connection

from talos.api.rpc import Code, RpcError

STREAM_WINDOW = 65535 * 32
"""Initial window of a stream, in bytes (as upstream)."""

CONNECTION_WINDOW = 65535 * 16
"""Initial window of a connection, in bytes (as upstream)."""

UNREAD_LIMIT = 8 * 1024 * 1024
"""Data of one connection that no handler has asked for, before the client has to wait."""


@dataclass(slots=True)
class Budget:
    """Memory for large requests, shared by all connections of a server."""

    left: int = 160 * 1024 * 1024
    free_size: int = 64 * 1024

    def take(self, size: int) -> int:
        """Reserve memory for a request; returns what is to be given back."""
        if size <= self.free_size:
            return 0
        if size > self.left:
            raise RpcError(Code.RESOURCE_EXHAUSTED, "too many large requests at a time, try again")
        self.left -= size
        return size

    def give_back(self, size: int) -> None:
        """Return what was reserved."""
        self.left += size


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
        """Data came that a handler is to read, with padding that nobody will."""
        self._unread += size
        self._owed += size + padding
        if padding:
            self._owed_to[stream] = self._owed_to.get(stream, 0) + padding
        self._open_connection()

    def ignore(self, size: int) -> None:
        """Data came that nobody will read."""
        self._owed += size
        self._open_connection()

    def take(self, stream: int, size: int) -> None:
        """A handler takes up so much of what came."""
        self._unread -= size
        self._owed_to[stream] = owed = self._owed_to.get(stream, 0) + size
        known = self._h2.streams.get(stream)
        if owed >= STREAM_WINDOW // 2 and self._is_open() and known is not None and known.open:
            self._owed_to[stream] = 0
            self._h2.increment_flow_control_window(owed, stream)
        self._open_connection()

    def forget(self, stream: int, size: int) -> None:
        """A stream has ended, and so much of what came was not read."""
        self._unread -= size
        self._owed_to.pop(stream, None)
        self._open_connection()

    def _open_connection(self) -> None:
        if self._owed >= CONNECTION_WINDOW // 2 and self._unread <= UNREAD_LIMIT and self._is_open():
            owed, self._owed = self._owed, 0
            self._h2.increment_flow_control_window(owed)
