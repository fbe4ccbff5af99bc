"""Bounds of a TLS port: connections, handshakes, calls and memory."""

from collections import Counter
from dataclasses import dataclass, field

from talos.api.rpc import Code, RpcError

TLS_BUFFER = 32 * 1024
"""Bytes that asyncio's TLS reads at a time, kept for each connection. Its default is 256 KiB."""

MAX_FRAME = 16 * 1024
"""Bytes of one frame; HTTP/2's default."""

RESETS_PER_SECOND = 200
"""Calls that a client may cancel, on average; more than that is an attack (rapid reset)."""

SETTINGS_PER_SECOND = 100
"""Frames with settings, each of which may change the window of every stream. Clients send one or two."""

CONTROL_FRAMES_PER_SECOND = 10_000
"""Frames that carry neither a request nor its data: pings, priorities, empty data, its window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What all clients of a port, one of them, and one connection may use.

    A client is a certificate, and without one the network of its address.
    """

    connections: int = 256
    connections_per_client: int = 64
    streams: int = 250
    """Open calls of one connection."""

    calls: int = 512
    """Open calls of all connections; see :class:`Shares`."""

    request_memory: int = 16 * 1024 * 1024
    """Bytes of requests that have arrived and are not passed on yet; see :class:`Shares`."""

    header_size: int = 64 * 1024
    """Bytes of the headers of one request, compressed and not, before the connection is ended."""

    handshakes: int = 128
    silent: int = 256
    """Connections that have not sent a byte yet."""

    hello_timeout: float = 3.0
    """Seconds until the first byte of a TLS handshake."""

    handshake_timeout: float = 10.0
    """Seconds of a TLS handshake, which takes 2 to 3 round trips."""

    shutdown_timeout: float = 2.0
    idle_timeout: float | None = None
    """Seconds without a call until a connection is closed."""

    one_call: bool = False
    """Whether a connection is closed after its first answer."""


@dataclass(slots=True)
class Shares:
    """A bounded amount of something, shared by clients so that none can use it up.

    A client may take as much as is left free by all (the dynamic threshold of shared-memory
    switches): one alone gets half of the total, two get a third each, and some is always left.
    """

    total: int
    what: str
    _held: Counter[str] = field(default_factory=Counter[str])
    _used: int = 0

    def take(self, client: str, amount: int) -> None:
        """Take an amount; RpcError when the client would have more than is left."""
        if self._held[client] + amount > self.total - self._used - amount:
            if not self._held[client]:
                del self._held[client]
            raise RpcError(Code.RESOURCE_EXHAUSTED, f"too many {self.what} at a time, try again")
        self._held[client] += amount
        self._used += amount

    def give_back(self, client: str, amount: int) -> None:
        """Return an amount."""
        self._used -= amount
        self._held[client] -= amount
        if not self._held[client]:
            del self._held[client]
