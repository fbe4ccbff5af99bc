"""How the supervisor asks whether a service works."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.rpc import Transport

INITIAL_DELAY = 1.0
PERIOD = 5.0
TIMEOUT = 0.5
_GRPC_HEALTH = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"
"""A HealthCheckResponse with status SERVING."""

type Connect = Callable[[str], AbstractAsyncContextManager[Transport]]


class Probe(Protocol):
    """One question to a service."""

    def __call__(self, connect: Connect) -> Awaitable[None]:
        """Raise OSError, or whatever says why not, when the service doesn't work."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """A probe and how often it is used. Times in seconds."""

    probe: Probe
    initial_delay: float = INITIAL_DELAY
    period: float = PERIOD
    timeout: float = TIMEOUT


class UnhealthyError(Exception):
    """The service answered that it doesn't work."""


@dataclass(frozen=True, slots=True)
class SocketDial:
    """Somebody listens on a unix socket."""

    path: str

    async def __call__(self, connect: Connect) -> None:
        """Connect, and close at once: a server that stops would wait for an open connection."""
        del connect
        async with await trio.open_unix_socket(self.path):
            pass


@dataclass(frozen=True, slots=True)
class TcpDial:
    """Somebody listens on a port of this machine."""

    port: int

    async def __call__(self, connect: Connect) -> None:
        """Connect and close at once."""
        del connect
        async with await trio.open_tcp_stream("127.0.0.1", self.port):
            pass


@dataclass(frozen=True, slots=True)
class GrpcHealth:
    """The server on a unix socket says that it serves."""

    path: str

    async def __call__(self, connect: Connect) -> None:
        """Ask grpc.health.v1.Health."""
        async with connect(self.path) as transport:
            reply = await transport.unary(_GRPC_HEALTH, Empty(), Empty)
        if reply.SerializeToString() != _SERVING:  # the field survives as an unknown one
            raise UnhealthyError("the server says that it is not serving")
