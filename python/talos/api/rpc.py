"""The types of remote calls, independent of any gRPC library.

A handler is a trio function. Its shape follows from whether the request and the reply
are streamed:

- unary: ``async def handler(request, call) -> reply``
- server stream: ``async def handler(request, call, send) -> None``
- client stream: ``async def handler(requests, call) -> reply``
- both: ``async def handler(requests, call, send) -> None``

``send`` waits while the client does not read. A handler ends a call with another status
than OK by raising :class:`RpcError`; a :class:`talos.system.errors.UserError` becomes
``INVALID_ARGUMENT``.
"""

import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from talos.api.metadata import ROLE


class Code(enum.IntEnum):
    """gRPC status codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(Exception):
    """A call that ended, or shall end, with a status other than OK.

    ``details`` are messages packed into the ``google.rpc.Status`` of the trailers.
    """

    def __init__(self, code: Code, message: str, details: Sequence[Message] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = tuple(details)

    @property
    def reason(self) -> str:
        """The message, or the name of the code when it has none."""
        return self.message or self.code.name

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


def format_reason(error: Exception) -> str:
    """Why something has failed, of a call without the code that the text of :class:`RpcError` begins with."""
    return error.reason if isinstance(error, RpcError) else str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The context of a call: what a handler gets beside the request.

    ``metadata`` has lower-case keys, each with all of its values in order. ``deadline`` is
    on trio's clock, infinity when the caller set none. ``peer`` is the transport's address.
    """

    method: str
    metadata: Mapping[str, tuple[str, ...]]
    deadline: float
    peer: str

    @property
    def roles(self) -> frozenset[str]:
        """The caller's roles, which the router has put into the metadata."""
        return frozenset(self.metadata.get(ROLE, ()))


type Send = Callable[[Message], Awaitable[None]]
type Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Service:
    """A service of the API and the handlers this process has for its methods.

    A method without a handler answers ``UNIMPLEMENTED``.
    """

    descriptor: ServiceDescriptor
    handlers: Mapping[str, Handler]

    def __post_init__(self) -> None:
        unknown = self.handlers.keys() - {method.name for method in self.descriptor.methods}
        if unknown:
            raise TypeError(f"{self.descriptor.full_name} has no method {', '.join(sorted(unknown))}")


class Transport(Protocol):
    """The client's end of a connection, for trio.

    ``method`` is a full path, ``/package.Service/Method``. A call that fails raises
    :class:`RpcError`; leaving the context of a stream cancels it.
    """

    async def unary[R: Message](
        self,
        method: str,
        request: Message,
        reply: type[R],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it is sent to the server too
    ) -> R:
        """One request, one reply. ``timeout`` in seconds."""
        ...

    def stream[R: Message](
        self,
        method: str,
        request: Message,
        reply: type[R],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
        timeout: float | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[R]]:
        """One request, replies one after another."""
        ...


class DuplexCall[R: Message](Protocol):
    """A call whose requests and replies are both streamed."""

    async def send(self, request: Message) -> None:
        """Send a request, waiting while the server does not read. RpcError when the call has ended."""
        ...

    async def receive(self) -> R:
        """The next reply; RpcError when the call has ended."""
        ...

    async def finish(self) -> None:
        """Send no more, and wait until the server has ended the call; further replies are dropped."""
        ...


class DuplexTransport(Transport, Protocol):
    """A transport that can stream both ways."""

    def duplex[R: Message](
        self,
        method: str,
        reply: type[R],
        *,
        metadata: Mapping[str, Sequence[str]] | None = None,
    ) -> AbstractAsyncContextManager[DuplexCall[R]]:
        """Requests and replies one after another."""
        ...
