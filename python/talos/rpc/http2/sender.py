"""The sending half of a connection: frames are collected and sent once in a round of the loop."""

import asyncio

from talos.rpc.http2.frames import END_HEADERS, MIN_FRAME, Bounds, Kind, make_frame
from talos.rpc.http2.headers import NO_TABLE, encode_headers
from talos.rpc.protocol import Headers

_FLUSH_SIZE = 64 * 1024
"""Bytes that are sent at once instead of at the end of the loop's round."""


class Sender(asyncio.BufferedProtocol):
    """Writes to a transport. ``max_frame`` is what the peer takes, in bytes."""

    def __init__(self, bounds: Bounds) -> None:
        self.loop = asyncio.get_running_loop()
        self.bounds = bounds
        self.max_frame = MIN_FRAME
        self.closed = False
        self.transport: asyncio.Transport | None = None
        self._encoded_before = False
        self._unsent: list[bytes | memoryview] = []
        self._unsent_size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes together with others of the same round of the loop."""
        if not self._unsent:
            self.loop.call_soon(self.flush)
        self._unsent.append(data)
        self._unsent_size += len(data)
        if self._unsent_size > _FLUSH_SIZE:
            self.flush()

    def flush(self) -> None:
        """Send what was collected."""
        if self._unsent:
            data, self._unsent, self._unsent_size = b"".join(self._unsent), [], 0
            if self.transport is not None and not self.transport.is_closing():
                self.transport.write(data)
                if self.transport.get_write_buffer_size() > self.bounds.unsent:
                    self.overflow()

    def overflow(self) -> None:
        """End a connection whose peer does not read what it makes this side answer."""
        self.abort()

    def write_headers(self, number: int, headers: Headers, flags: int = 0) -> None:
        """Send headers, in several frames if they are large."""
        block = encode_headers(headers)
        if not self._encoded_before:
            block, self._encoded_before = NO_TABLE + block, True
        if len(block) <= self.max_frame:
            self.write(make_frame(Kind.HEADERS, flags | END_HEADERS, number, block))
            return
        parts = [block[start : start + self.max_frame] for start in range(0, len(block), self.max_frame)]
        self.write(make_frame(Kind.HEADERS, flags, number, parts[0]))
        for part in parts[1:-1]:
            self.write(make_frame(Kind.CONTINUATION, 0, number, part))
        self.write(make_frame(Kind.CONTINUATION, END_HEADERS, number, parts[-1]))

    def close(self) -> None:
        """End the connection once what waits is sent."""
        self.flush()
        self.closed = True
        # Closing asyncio's TLS a second time would keep it from being aborted.
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()

    def abort(self) -> None:
        """End the connection now, whether or not the peer reads."""
        self.closed = True
        if self.transport is not None:
            self.transport.abort()
