"""How the supervisor asks whether a service works.

A kernel takes connections for a process that hangs, so every probe waits for an answer that only the
process itself can give.
"""

import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Protocol

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.rpc import Code, RpcError, Transport

INITIAL_DELAY = 1.0
PERIOD = 5.0
TIMEOUT = 5.0
PATIENCE = 60.0
HEALTH = "/grpc.health.v1.Health/Check"
"""The standard question. A server without that service answers it, too: that it has none."""
_SERVING = b"\x08\x01"
"""A HealthCheckResponse with status SERVING."""
_NO_ANSWER = frozenset({Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED})
_READ = 4096

type Connect = Callable[[str], AbstractAsyncContextManager[Transport]]


class Probe(Protocol):
    """One question to a service."""

    def __call__(self, connect: Connect) -> Awaitable[None]:
        """Raise OSError, or any error whose text is the reason, when the service doesn't work."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """A probe and how often it is used. Times in seconds.

    Within ``patience`` of the start failures are no news, as long as nothing has succeeded. A process
    is killed, and so started again, when it has not answered for ``silence``, or not even once for
    ``start_limit``: a busy machine may take its time.
    """

    probe: Probe
    initial_delay: float = INITIAL_DELAY
    period: float = PERIOD
    timeout: float = TIMEOUT
    patience: float = PATIENCE
    silence: float = inf
    start_limit: float = inf


class UnhealthyError(Exception):
    """The service answered that it doesn't work."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The gRPC server on a unix socket answers a method, even if by refusing it."""

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
class AnswersTls:
    """The TLS server on a port of this machine begins a handshake.

    It is not finished: apid would ask for a certificate, which PID 1 has no other use for. A server takes
    a client that leaves then for one that went away, and logs nothing.
    """

    port: int

    async def __call__(self, connect: Connect) -> None:
        """Greet, and leave at the first bytes of the answer."""
        del connect
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            await stream.send_all(make_client_hello())
            if not await stream.receive_some(_READ):
                raise UnhealthyError("the connection was closed instead of answered")


@dataclass(frozen=True, slots=True)
class GrpcHealth:
    """The server on a unix socket answers that it serves."""

    path: str

    async def __call__(self, connect: Connect) -> None:
        """Ask grpc.health.v1.Health."""
        async with connect(self.path) as transport:
            reply = await transport.unary(HEALTH, Empty(), Empty)
        if reply.SerializeToString() != _SERVING:  # the field survives as an unknown one
            raise UnhealthyError("the server answers that it is not serving")


@cache
def make_client_hello() -> bytes:
    """The first message of a TLS client that speaks HTTP/2. It verifies nothing: it never gets that far."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
