"""gRPC on a stream of HTTP/2: framed messages there and back, and the status at the end."""

import base64
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError, Message

from talos.api.rpc import Code, RpcError
from talos.client.http2 import Headers, Http2Connection, Http2Stream, StreamError

if TYPE_CHECKING:
    from collections.abc import Sequence

MESSAGE_LIMIT = 32 * 1024 * 1024
"""The largest message either side takes (as upstream)."""
PREFIX = 5
"""Bytes before a message: whether it is compressed, and its size."""

_OF_HTTP_STATUS = {
    "400": Code.INTERNAL,
    "401": Code.UNAUTHENTICATED,
    "403": Code.PERMISSION_DENIED,
    "404": Code.UNIMPLEMENTED,
    "429": Code.UNAVAILABLE,
    "502": Code.UNAVAILABLE,
    "503": Code.UNAVAILABLE,
    "504": Code.UNAVAILABLE,
}
_OF_RESET = {7: Code.UNAVAILABLE, 8: Code.CANCELLED, 11: Code.RESOURCE_EXHAUSTED, 12: Code.PERMISSION_DENIED}
"""REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY; both tables from the gRPC specification."""


class Call[R: Message]:
    """One call. Its caller closes it. StreamError: the connection was lost."""

    def __init__(
        self, connection: Http2Connection, authority: str, method: str, metadata: Headers, reply: type[R]
    ) -> None:
        self._reply = reply
        self._stream: Http2Stream = connection.open_stream(
            [
                (":method", "POST"),
                (":scheme", "https"),
                (":path", method),
                (":authority", authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "talosctl"),
                *metadata,
            ]
        )
        self._buffer = bytearray()

    async def send(self, message: Message, *, end: bool = False) -> None:
        """Send a message."""
        data = message.SerializeToString()
        await self._stream.send(b"\0" + len(data).to_bytes(PREFIX - 1, "big") + data, end=end)

    async def end(self) -> None:
        """Send nothing more."""
        await self._stream.send(b"", end=True)

    async def receive(self) -> R | None:
        """The next reply, None at the end of a call that succeeded; raises RpcError for one that failed."""
        try:
            head = await self._take(PREFIX)
            if head is None:
                self._check_status()
                return None
            size = int.from_bytes(head[1:], "big")
            if head[0]:
                raise RpcError(Code.INTERNAL, "the node's reply is compressed, which was not asked for")
            if size > MESSAGE_LIMIT:
                text = f"the node's reply of {size} bytes exceeds the limit of {MESSAGE_LIMIT}"
                raise RpcError(Code.RESOURCE_EXHAUSTED, text)
            data = await self._take(size) if size else b""
        except StreamError as error:
            if error.reset is None:
                raise
            code = _OF_RESET.get(error.reset, Code.INTERNAL)
            raise RpcError(code, f"the node broke the call off (HTTP/2 error {error.reset})") from error
        if data is None:
            raise RpcError(Code.INTERNAL, "the node's reply is cut off")
        try:
            return self._reply.FromString(data)
        except DecodeError as error:
            raise RpcError(
                Code.INTERNAL, f"the node's reply is no {self._reply.DESCRIPTOR.full_name}"
            ) from error

    async def _take(self, size: int) -> bytes | None:
        """So many bytes; None when the stream ends before them."""
        while len(self._buffer) < size:
            data = await self._stream.receive()
            if not data and self._stream.is_ended and not self._stream.chunks:
                return None
            self._check_head()
            self._buffer += data
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _check_head(self) -> None:
        headers = self._stream.headers
        status = headers.get(":status", "200")
        if status != "200":
            code = _OF_HTTP_STATUS.get(status, Code.UNKNOWN)
            raise RpcError(code, f"it answers with HTTP status {status}, this is no gRPC server")
        kind = headers.get("content-type", "")
        if not kind.startswith("application/grpc"):
            raise RpcError(Code.UNKNOWN, f'it answers with "{kind}", this is no gRPC server')

    def _check_status(self) -> None:
        headers = self._stream.headers
        text = headers.get("grpc-status")
        if text is None:
            self._check_head()
            raise RpcError(Code.INTERNAL, "the node ended the call without a status")
        code = Code(int(text)) if text.isdigit() and int(text) <= max(Code) else Code.UNKNOWN
        if code is Code.OK:
            return
        message = headers.get("grpc-message", "")
        if "%" in message:
            from urllib.parse import unquote

            message = unquote(message)
        raise RpcError(code, message, _read_details(headers.get("grpc-status-details-bin", "")))

    def close(self) -> None:
        """Drop the call; one that has not ended is cancelled."""
        self._stream.close()


def _read_details(text: str) -> "Sequence[Message]":
    """The details of a status, still packed; none when they can't be read."""
    if not text:
        return ()
    from talos.api.google.rpc.status_pb2 import Status

    try:
        return tuple(Status.FromString(base64.b64decode(text + "=" * (-len(text) % 4))).details)
    except (ValueError, DecodeError):
        return ()
