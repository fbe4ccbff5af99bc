"""One stream of a connection: messages in and out, with flow control in both directions."""

import asyncio
from typing import override

from talos.api.rpc import Code, RpcError
from talos.rpc.http2.backend import AsyncBackend, Event
from talos.rpc.http2.connection import Connection
from talos.rpc.http2.frames import (
    END_STREAM,
    ErrorCode,
    FlowControlError,
    Kind,
    make_frame,
    make_head,
    make_window_update,
)
from talos.rpc.http2.receiver import Receiver
from talos.rpc.limits import MAX_MESSAGE
from talos.rpc.protocol import PREFIX, Headers


class Stream(Receiver):
    """What the streams of a client and of a server have in common."""

    def __init__(
        self, connection: Connection, number: int, backend: AsyncBackend, *, max_message: int = MAX_MESSAGE
    ) -> None:
        self.number = number
        self.send_window = connection.stream_window
        self.connection = connection
        self.received_all = False
        self.body_left: int | None = None
        self.failure: RpcError | None = None
        self.max_message = max_message
        self._backend = backend
        self._buffer = bytearray()
        self._window = connection.bounds.stream_window
        self._receive_window = self._window
        self._reader: Event | None = None
        self._writer: Event | None = None

    # What the connection calls.

    @override
    def take_headers(self, headers: Headers, *, ended: bool) -> None:
        pass  # trailers of a request have no use

    @override
    def feed(self, data: memoryview, size: int) -> None:
        self._receive_window -= size
        if self._receive_window < 0:
            raise FlowControlError("more data than the stream's window allows")
        self._buffer += data
        if self._reader is not None:
            self._grant()
            self._reader.set()

    @override
    def feed_end(self) -> None:
        self.received_all = True
        self.wake()

    @override
    def reset(self, code: int) -> None:
        if code == ErrorCode.CANCEL:
            self.end_with(RpcError(Code.CANCELLED, "the call was cancelled"))
        else:
            self.end_with(RpcError(Code.UNAVAILABLE, f"the stream was reset with code {code}"))

    @override
    def mark_lost(self, reason: str) -> None:
        self.end_with(RpcError(Code.UNAVAILABLE, reason))

    @override
    def end_with(self, failure: RpcError) -> None:
        if self.failure is None:
            self.failure = failure
        self.wake()
        self.wake_writer()

    def wake(self) -> None:
        """Wake the reader."""
        if self._reader is not None:
            self._reader.set()

    @override
    def wake_writer(self) -> None:
        if self._writer is not None:
            self._writer.set()

    # What its user calls.

    async def wait(self) -> None:
        """Wait until data or an end has arrived."""
        event = self._reader = self._backend.event()
        try:
            self._grant()
            await event.wait()
        finally:
            self._reader = None

    async def receive(self) -> bytes | None:
        """The next message; None after the last one."""
        while True:
            held = len(self._buffer)
            if held >= PREFIX:
                size = int.from_bytes(self._buffer[1:PREFIX])
                if self._buffer[0]:
                    raise RpcError(Code.UNIMPLEMENTED, "compressed messages are not supported")
                if size > self.max_message:
                    raise RpcError(
                        Code.RESOURCE_EXHAUSTED,
                        f"grpc: received message larger than max ({size} vs. {self.max_message})",
                    )
                if held < PREFIX + size:
                    self.expect(size)
                else:
                    message = bytes(memoryview(self._buffer)[PREFIX : PREFIX + size])
                    del self._buffer[: PREFIX + size]
                    if len(self._buffer) < self._window // 2:
                        self._grant()
                    return message
            if self.received_all and not held:
                return None
            if self.failure is not None:
                raise self.failure
            if self.received_all:
                raise RpcError(Code.INTERNAL, "the stream ended in the middle of a message")
            await self.wait()

    def expect(self, size: int) -> None:
        """Note that the next message has this size and is not complete; RpcError when it must not come."""

    def _grant(self) -> None:
        """Open the window by what its reader has taken."""
        owed = self._window - self._receive_window
        if owed >= self._window // 2:
            wider = self.widening()
            self._window += wider
            self._widen(owed + wider)

    def widening(self) -> int:
        """Bytes by which the window, of which half has been used, becomes larger."""
        return 0

    def _widen(self, size: int) -> None:
        if not self.received_all and self.failure is None:
            self._receive_window += size
            self.connection.write(make_window_update(self.number, size))

    def try_send(self, data: bytes, *, last: bool = False) -> bool:
        """Send data if that is possible at once."""
        connection, size = self.connection, len(data)
        if (
            size > self.send_window
            or size > connection.send_window
            or size > connection.max_frame
            or connection.paused
            or self.failure is not None
        ):
            return False
        self.send_window -= size
        connection.send_window -= size
        connection.write(make_frame(Kind.DATA, END_STREAM if last else 0, self.number, data))
        return True

    def stall(self) -> None:
        """End the stream: its peer has not read for as long as it may."""

    async def send_data(self, data: bytes, *, last: bool = False, max_stall: float | None = None) -> None:
        """Send data, waiting while the peer does not read, at most ``max_stall`` seconds for each part."""
        if self.try_send(data, last=last):
            return
        connection, position, view = self.connection, 0, memoryview(data)
        stalled: float | None = None
        while position < len(data):
            if self.failure is not None:
                raise self.failure
            room = min(self.send_window, connection.send_window, connection.max_frame)
            if room <= 0 or connection.paused:
                event = self._writer = self._backend.event()
                timer: asyncio.TimerHandle | None = None
                if max_stall is not None:
                    stalled = connection.loop.time() if stalled is None else stalled
                    timer = connection.loop.call_at(stalled + max_stall, self.stall)
                try:
                    await event.wait()
                finally:
                    self._writer = None
                    if timer is not None:
                        timer.cancel()
                continue
            stalled = None
            size = min(room, len(data) - position)
            part = view[position : position + size]
            position += size
            self.send_window -= size
            connection.send_window -= size
            flags = END_STREAM if last and position == len(data) else 0
            connection.write(make_head(Kind.DATA, flags, self.number, size))
            connection.write(part)
        connection.flush()
