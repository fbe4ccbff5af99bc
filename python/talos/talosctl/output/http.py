"""A small HTTP server for the loopback interface or a scraper: GET alone, one request a connection."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus

REQUEST_TIMEOUT = 10.0
"""Seconds that a client may be silent, and that it may leave a reply unread."""
MAX_REQUEST = 8192
"""Bytes of a request's head."""
MAX_CONNECTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request's path, and its headers by names in lower case."""

    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole body, or a ``stream`` until the client or the stream ends."""

    status: HTTPStatus = HTTPStatus.OK
    type: str = "text/plain; charset=utf-8"
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    stream: AsyncGenerator[bytes] | None = None


type Answer = Callable[[Request], Awaitable[Reply]]


async def start_server(
    answer: Answer, host: str, port: int, *, connections: int = MAX_CONNECTIONS
) -> asyncio.Server:
    """Answer requests; of more connections the next one is closed. OSError when the address is taken."""
    places = asyncio.Semaphore(connections)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                method, request = _parse(await reader.readuntil(b"\r\n\r\n"))
            if method != "GET":
                reply = Reply(status=HTTPStatus.METHOD_NOT_ALLOWED, body=b"only GET\n")
            else:
                reply = await answer(request)
            await _send(writer, _format_head(reply) + reply.body)
            if reply.stream is not None:
                await _copy(reader, writer, reply.stream)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that is silent or gone, or whose protocol is another one
        finally:
            writer.close()

    async def serve_if_free(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if places.locked():
            writer.close()
            return
        async with places:
            await serve(reader, writer)

    return await asyncio.start_server(serve_if_free, host, port, limit=MAX_REQUEST)


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: AsyncGenerator[bytes]
) -> None:
    """Send a stream until it ends or the client leaves, also while there is nothing to send."""

    async def send() -> None:
        async with aclosing(stream):
            async for chunk in stream:
                await _send(writer, chunk)

    sending, leaving = asyncio.ensure_future(send()), asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sending.cancel()
        leaving.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    async with asyncio.timeout(REQUEST_TIMEOUT):
        await writer.drain()


def _parse(head: bytes) -> tuple[str, Request]:
    line, *fields = head.decode("ascii", "replace").split("\r\n")
    method, path, _ = (*line.split(" ", 2), "", "")[:3]
    pairs = (field.partition(":") for field in fields if field)
    return method, Request(
        path=path, headers={name.strip().lower(): value.strip() for name, _, value in pairs}
    )


def _format_head(reply: Reply) -> bytes:
    """The head of HTTP/1.1; the connection is closed behind the body."""
    lines = [f"HTTP/1.1 {reply.status.value} {reply.status.phrase}", f"Content-Type: {reply.type}"]
    lines += [] if reply.stream is not None else [f"Content-Length: {len(reply.body)}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    return ("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode()
