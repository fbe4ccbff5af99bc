"""Connections through the talosconfig's ``proxy-url``: HTTP CONNECT or SOCKS 5."""

import asyncio
import base64
import socket
import ssl
from urllib.parse import SplitResult, urlsplit

from talos.system.errors import UserError
from talos.talosctl.client.endpoint import Endpoint

_DEFAULT_PORTS = {"http": 80, "socks5": 1080, "socks5h": 1080}
_MAX_HEADER = 65536
_SOCKS_VERSION, _NO_AUTH, _PASSWORD_AUTH, _CONNECT, _DOMAIN = 5, 0, 2, 1, 3
"""RFC 1928 and RFC 1929."""
_SOCKS_REPLIES = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "time to live expired",
}


async def connect_through(proxy_url: str, endpoint: Endpoint) -> socket.socket:
    """A connected socket whose other end is the endpoint."""
    url = urlsplit(proxy_url)
    if url.scheme not in _DEFAULT_PORTS or not url.hostname:
        known = ", ".join(f"{scheme}://" for scheme in _DEFAULT_PORTS)
        raise UserError(
            f'"{proxy_url}" is no proxy this client knows', where="proxy-url", hint=f"use {known}"
        )
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        url.hostname, url.port or _DEFAULT_PORTS[url.scheme], type=socket.SOCK_STREAM
    )
    family, kind, protocol, _, address = found[0]
    connection = socket.socket(family, kind, protocol)
    connection.setblocking(False)
    try:
        await loop.sock_connect(connection, address)
        if url.scheme == "http":
            await _ask_http(connection, url, endpoint)
        else:
            await _ask_socks(connection, url, endpoint)
    except BaseException:
        connection.close()
        raise
    return connection


async def _ask_http(connection: socket.socket, url: SplitResult, endpoint: Endpoint) -> None:
    loop = asyncio.get_running_loop()
    lines = [f"CONNECT {endpoint} HTTP/1.1", f"Host: {endpoint}"]
    if url.username:
        credentials = base64.b64encode(f"{url.username}:{url.password or ''}".encode()).decode("ascii")
        lines.append(f"Proxy-Authorization: Basic {credentials}")
    await loop.sock_sendall(connection, ("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        # One byte at a time: what follows the header belongs to TLS.
        byte = await loop.sock_recv(connection, 1)
        answer += byte
        if not byte or len(answer) > _MAX_HEADER:
            raise ConnectionResetError("the proxy closed the connection")
    status = answer.split(b"\r\n", 1)[0].decode("latin-1")
    if " 200" not in status:
        raise OSError(0, f"the proxy {url.hostname} refuses: {status}")


async def _ask_socks(connection: socket.socket, url: SplitResult, endpoint: Endpoint) -> None:
    loop = asyncio.get_running_loop()
    method = _PASSWORD_AUTH if url.username else _NO_AUTH
    await loop.sock_sendall(connection, bytes([_SOCKS_VERSION, 1, method]))
    chosen = (await _read(connection, 2))[1]
    if chosen != method:
        raise OSError(0, f"the proxy {url.hostname} refuses this way to authenticate")
    if url.username:
        user, password = url.username.encode(), (url.password or "").encode()
        await loop.sock_sendall(connection, bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        if (await _read(connection, 2))[1] != 0:
            raise OSError(0, f"the proxy {url.hostname} refuses the user name or password")
    host = endpoint.host.encode("idna")
    request = (
        bytes([_SOCKS_VERSION, _CONNECT, 0, _DOMAIN, len(host)]) + host + endpoint.port.to_bytes(2, "big")
    )
    await loop.sock_sendall(connection, request)
    head = await _read(connection, 4)
    if head[1] != 0:
        reason = _SOCKS_REPLIES.get(head[1], f"error {head[1]}")
        raise OSError(0, f"the proxy {url.hostname} refuses: {reason}")
    length = {1: 4, 4: 16}.get(head[3]) or (await _read(connection, 1))[0]
    await _read(connection, length + 2)


async def _read(connection: socket.socket, count: int) -> bytes:
    loop = asyncio.get_running_loop()
    content = b""
    while len(content) < count:
        part = await loop.sock_recv(connection, count - len(content))
        if not part:
            raise ConnectionResetError("the proxy closed the connection")
        content += part
    return content


def peer_certificate(transport: asyncio.BaseTransport) -> bytes:
    """The DER certificate of a TLS transport's other end, empty when there is none."""
    connection: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return (connection.getpeercert(binary_form=True) or b"") if connection else b""
