"""A destination of logs on the loopback interface, as well or badly behaved as a test needs it."""

import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, override

import trio

from talos.logd.destination import Destination
from talos.system.wakeup import Signal


class Lines(list[Any]):
    """A list that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._more = Signal()

    @override
    def append(self, item: Any, /) -> None:
        super().append(item)
        self._more.notify()

    async def wait(self, count: int = 1, text: str = "") -> None:
        """Until so many are in it, or one with this text in it."""
        while not (any(text in line for line in self) if text else len(self) >= count):
            await self._more.wait()


@dataclass
class Sink:
    """What has come, and how it behaves. ``takes`` are the bytes that a connection reads before it ends."""

    port: int
    takes: float = float("inf")
    reads: trio.Event = field(default_factory=trio.Event)
    lines: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0
    more: Signal = field(default_factory=Signal)

    def destination(self, scheme: str = "tcp") -> Destination:
        return Destination(scheme=scheme, host="127.0.0.1", port=self.port)

    def note(self, lines: list[bytes]) -> None:
        self.lines += lines
        self.more.notify()

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    async def wait_for(self, line: bytes) -> None:
        while line not in self.lines:
            await self.more.wait()


@asynccontextmanager
async def running_sink(context: ssl.SSLContext | None = None) -> AsyncGenerator[Sink]:
    """A sink that reads lines once ``reads`` is set, which it is in the beginning."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    sink = Sink(port=listener.socket.getsockname()[1])
    sink.reads.set()

    async def handle(plain: trio.SocketStream) -> None:
        sink.connections += 1
        stream = trio.SSLStream(plain, context, server_side=True) if context else plain
        rest, left = b"", sink.takes
        try:
            async with stream:
                while left > 0:
                    await sink.reads.wait()
                    data = await stream.receive_some(4096)
                    if not data:
                        return
                    left -= len(data)
                    lines, newline, rest = (rest + data).rpartition(b"\n")
                    if newline:
                        sink.note(lines.split(b"\n"))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield sink
        nursery.cancel_scope.cancel()
