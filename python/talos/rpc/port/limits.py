"""Bounds of a TLS port: connections, handshakes, calls, frames and memory."""

from dataclasses import dataclass

from talos.rpc.http2.meter import DEFAULT_RATES, FrameRates

MAX_FRAME = 16 * 1024
"""Bytes of one frame; HTTP/2's default."""


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

    request_memory: int = 24 * 1024 * 1024
    """Bytes of requests that have arrived and are not passed on yet; see :class:`Shares`. A client alone gets
    half of it, and so the largest request through."""

    header_size: int = 64 * 1024
    """Bytes of the headers of one request, compressed and not, before the connection is ended."""

    rates: FrameRates = DEFAULT_RATES
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
