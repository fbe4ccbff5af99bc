"""Checks of the network: a TCP connection, or an answer to an HTTP request."""

import os
import socket
import ssl
from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

import trio

from talos.system.net.proxies import find_proxy

HEAD_BYTES = 64 * 1024
"""Of a reply at most until its first line is complete."""
_FIRST_SUCCESS, _FIRST_REDIRECTION, _FIRST_FAILURE = 200, 300, 400
_NO_SUCCESS = "the reply is no HTTP"


class ProbeError(Exception):
    """A check failed; the text is the reason, on one line."""


async def check_tcp(endpoint: str, seconds: float) -> None:
    """Connect to ``host:port``; ProbeError."""
    host, port = split_endpoint(endpoint)
    with trio.move_on_after(seconds) as scope:
        stream = await _connect(host, port)
        await trio.aclose_forcefully(stream)
    if scope.cancelled_caught:
        raise ProbeError(f"no connection within {seconds:g} s")


async def check_http(
    url: str, seconds: float, environment: Mapping[str, str], *, takes_redirection: bool = True
) -> None:
    """Request a URL; a status from 200 to 299 is a success, or to 399 with a redirection. ProbeError.

    A redirection is not followed. ``environment`` may name a proxy: HTTP_PROXY, HTTPS_PROXY, NO_PROXY.
    """
    with trio.move_on_after(seconds) as scope:
        status = await _request(url, environment)
        if not _FIRST_SUCCESS <= status < _FIRST_FAILURE:
            raise ProbeError(f"HTTP status {status}")
        if status >= _FIRST_REDIRECTION and not takes_redirection:
            raise ProbeError(f"HTTP status {status}, a redirection, which is not followed")
    if scope.cancelled_caught:
        raise ProbeError(f"no answer within {seconds:g} s")


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Host and port of ``host:port``, IPv6 in brackets; ProbeError."""
    try:
        parts = urlsplit(f"//{endpoint}")
        if parts.hostname and parts.port:
            return parts.hostname, parts.port
    except ValueError:
        pass
    raise ProbeError(f"{endpoint!r} is not host:port")


async def _request(url: str, environment: Mapping[str, str]) -> int:
    parts = urlsplit(url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    proxy = find_proxy(parts.scheme, host, environment)
    stream: trio.abc.Stream
    if proxy:
        through = urlsplit(proxy if "//" in proxy else f"//{proxy}")
        stream = await _connect(through.hostname or "", through.port or 80)
        if not is_tls:
            target = url
    else:
        stream = await _connect(host, port)
    try:
        if proxy and is_tls:
            connected = await _exchange(stream, f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
            if connected != _FIRST_SUCCESS:
                raise ProbeError(f"the proxy answers CONNECT with {connected}")
        if is_tls:
            context = ssl.create_default_context()
            stream = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
        agent = "User-Agent: talos-probe\r\nAccept: */*\r\nConnection: close\r\n"
        return await _exchange(stream, f"GET {target} HTTP/1.1\r\nHost: {authority}\r\n{agent}\r\n")
    except (trio.BrokenResourceError, ssl.SSLError) as error:
        raise ProbeError(_describe(error)) from None
    finally:
        await trio.aclose_forcefully(stream)


async def _connect(host: str, port: int) -> trio.SocketStream:
    try:
        return await trio.open_tcp_stream(host, port)
    except (OSError, UnicodeError) as error:
        raise ProbeError(_describe(error)) from None


async def _exchange(stream: trio.abc.Stream, request: str) -> int:
    """Send a request, and read the status up to the end of the reply's head."""
    await stream.send_all(request.encode("latin-1", "replace"))
    head = b""
    while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES:
        received = await stream.receive_some(4096)
        if not received:
            break
        head += received
    version, _, rest = head.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise ProbeError(_NO_SUCCESS)
    return int(rest[:3])


def _describe(error: BaseException) -> str:
    """The innermost reason; a connection that fails on several addresses has one for each."""
    cause = error
    while (inner := _find_inner(cause)) is not None:
        cause = inner
    if isinstance(cause, OSError) and cause.errno and not isinstance(cause, socket.gaierror | ssl.SSLError):
        return os.strerror(cause.errno)  # trio's own text repeats the address, as Python writes it
    text: object = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return " ".join(str(text).split())


def _find_inner(error: BaseException) -> BaseException | None:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.exceptions[0]
    return error.__cause__
