"""Health probes of services.

A kernel accepts connections for a process that hangs, so every probe waits for a reply that only the
process itself can send.
"""

import os
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Protocol

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.rpc import Code, DuplexTransport, RpcError
from talos.rpc.handlers import HEALTH, SERVING
from talos.system.process import ProcessorTime, read_processor_times

INITIAL_DELAY = 1.0  # seconds
CHECK_INTERVAL = 20.0  # seconds
"""Between two checks of a service that answers. The end of a process is noticed at once; a check finds one
that hangs. More of them find little more, and they are most of what a node at rest does.
"""
FAILING_CHECK_INTERVAL = 5.0  # seconds
"""Between two checks of a service that does not answer."""
TIMEOUT = 5.0  # seconds
STARTUP_TIMEOUT = 60.0  # seconds
MIN_SILENCE_SHARE = 0.25
"""The part of a silence that counts at least, however busy the machine is: every wait ends."""
_NO_ANSWER = frozenset({Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED})
_READ = 4096

type Connect = Callable[[str], AbstractAsyncContextManager[DuplexTransport]]


class Probe(Protocol):
    """One check of a service."""

    def __call__(self, connect: Connect) -> Awaitable[None]:
        """Raise OSError, or any error whose text is the reason, when the service doesn't work."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """A probe and its schedule. Times in seconds.

    Within ``startup_grace`` of the start, failures are not reported unless a check has succeeded. A process
    is killed, and so restarted, when it has not answered for ``silence``, or not once for the longer
    ``start_timeout``, which allows for a loaded machine. Time in which it or PID 1 waits for a processor does
    not count: on a machine with much to do, a restart is one more thing to do, for every service at once.
    """

    probe: Probe
    initial_delay: float = INITIAL_DELAY
    period: float = CHECK_INTERVAL
    timeout: float = TIMEOUT
    startup_grace: float = STARTUP_TIMEOUT
    silence: float = inf
    start_timeout: float = inf


class KeptChannels:
    """Channels that stay open between the checks of a service: connecting costs both sides more than a call.

    A check that fails closes them, so that the next one connects anew.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._open: dict[str, DuplexTransport] = {}
        self._stack = AsyncExitStack()

    @asynccontextmanager
    async def connect(self, path: str) -> AsyncGenerator[DuplexTransport]:
        """The channel to a socket."""
        if path not in self._open:
            self._open[path] = await self._stack.enter_async_context(self._connect(path))
        try:
            yield self._open[path]
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connections."""
        self._open.clear()
        await self._stack.aclose()


class UnhealthyError(Exception):
    """The service replied that it doesn't work."""


@dataclass(frozen=True, slots=True)
class MethodProbe:
    """The gRPC server on a unix socket replies to the standard method, whatever the status.

    A server without it replies, too: UNIMPLEMENTED. Ours answer it on trio, as their handlers run there.
    """

    path: str
    method: str = HEALTH

    async def __call__(self, connect: Connect) -> None:
        """Call the method without an argument and without a role."""
        async with connect(self.path) as transport:
            try:
                await transport.unary(self.method, Empty(), Empty)
            except RpcError as error:
                if error.code in _NO_ANSWER:
                    raise


@dataclass(frozen=True, slots=True)
class TlsProbe:
    """The TLS server on a local port replies to a ClientHello.

    The handshake is not completed, as apid requires a client certificate, which PID 1 has no other use
    for. The server treats the closed connection as a disconnect and logs nothing.
    """

    port: int

    async def __call__(self, connect: Connect) -> None:
        """Send a ClientHello and close at the first bytes of the reply."""
        del connect
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            await stream.send_all(make_client_hello())
            if not await stream.receive_some(_READ):
                raise UnhealthyError("the connection was closed instead of answered")


@dataclass(frozen=True, slots=True)
class ServingProbe:
    """The gRPC server on a unix socket reports SERVING."""

    path: str

    async def __call__(self, connect: Connect) -> None:
        """Call grpc.health.v1.Health/Check."""
        async with connect(self.path) as transport:
            reply = await transport.unary(HEALTH, Empty(), Empty)
        if reply.SerializeToString() != SERVING:  # the field survives as an unknown one
            raise UnhealthyError("the server reports that it is not serving")


@dataclass(frozen=True, slots=True)
class HttpProbe:
    """The HTTP server on a local port replies to a path with 200."""

    port: int
    path: str

    async def __call__(self, connect: Connect) -> None:
        """Request the path and read the status of the reply."""
        del connect
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            await stream.send_all(f"GET {self.path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            reply = await stream.receive_some(_READ)
        head, _, _ = reply.partition(b"\r\n")
        if b" 200 " not in head + b" ":
            raise UnhealthyError(head.decode(errors="replace") or "the connection was closed")


class ProcessorWaits:
    """How long a process, or PID 1, which probes it, has waited for a processor since the first failure."""

    def __init__(self, pid: int) -> None:
        self._pids = (pid, os.getpid())
        self._before = self._read()

    def _read(self) -> list[dict[str, ProcessorTime]]:
        return [read_processor_times(pid) for pid in self._pids]

    def discount(self, silent: float) -> float:
        """Seconds without an answer, less the longest wait of a thread for a processor in them."""
        waited = max(
            (
                now.waited - (before[thread].waited if thread in before else 0.0)
                for before, after in zip(self._before, self._read(), strict=True)
                for thread, now in after.items()
            ),
            default=0.0,
        )
        return max(MIN_SILENCE_SHARE * silent, silent - waited)


@cache
def make_client_hello() -> bytes:
    """A ClientHello with ALPN ``h2``. Nothing is verified, as the handshake is never completed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
