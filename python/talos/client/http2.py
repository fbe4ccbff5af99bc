"""A workstation's end of a connection to a node: the HTTP/2 of :mod:`talos.rpc`, and why it broke.

A stream's window opens as its reader takes what came, so a slow reader slows its node down and nothing
piles up here.
"""

import asyncio
from typing import override

from talos.api.rpc import Code, RpcError
from talos.rpc.http2.backend import ASYNCIO
from talos.rpc.http2.client import ClientConnection
from talos.rpc.http2.client_call import ClientCall
from talos.rpc.http2.frames import Bounds, ErrorCode, ProtocolError
from talos.rpc.limits import MAX_MESSAGE
from talos.rpc.protocol import Headers

WINDOW = 8 * 1024 * 1024
"""Bytes that a stream may have on the way to its reader."""

_OF_RESET = {
    ErrorCode.REFUSED_STREAM: Code.UNAVAILABLE,
    ErrorCode.CANCEL: Code.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: Code.RESOURCE_EXHAUSTED,
}
"""From the gRPC specification; every other one is INTERNAL."""


class ConnectionLostError(Exception):
    """The connection ended before the call: ``Http2Connection.lost`` is why."""


class Http2Call(ClientCall):
    """A call to a node. ``is_lost``: it was cut off with the connection."""

    is_lost = False

    @override
    def mark_lost(self, reason: str) -> None:
        self.is_lost = self.status is None
        super().mark_lost(reason)

    @override
    def reset(self, code: int) -> None:
        text = f"the node broke the call off (HTTP/2 error {code})"
        self.end_with(RpcError(_OF_RESET.get(code, Code.INTERNAL), text))


class Http2Connection(ClientConnection):
    """One connection. ``lost`` is why it broke: a server's TLS alert comes only after the handshake."""

    def __init__(self) -> None:
        super().__init__(Bounds(streams=0, stream_window=WINDOW), max_message=MAX_MESSAGE)
        self.lost: BaseException | None = None
        self.is_answered = False
        self.ended = asyncio.Event()

    def open_call(self, headers: Headers) -> Http2Call:
        """Begin a call."""
        if len(self.streams) >= self.max_streams:
            raise RpcError(Code.RESOURCE_EXHAUSTED, "too many calls to the node at a time, try again")
        call = Http2Call(self, self.next, ASYNCIO, MAX_MESSAGE)
        self.begin_call(call, headers)
        return call

    @override
    def data_received(self, data: bytes | memoryview) -> None:
        self.is_answered = True
        super().data_received(data)

    @override
    def fail(self, reason: str, code: int) -> None:
        self.lost = self.lost or ProtocolError(reason)
        super().fail(reason, code)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = self.lost or exc or ConnectionResetError("closed by the node")
        super().connection_lost(exc)
        self.ended.set()
