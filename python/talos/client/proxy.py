"""Connections through the talosconfig's ``proxy-url``: HTTP CONNECT or SOCKS 5."""

import socket
from urllib.parse import unquote, urlsplit

from python_socks import ProxyError, ProxyType
from python_socks.async_.asyncio import Proxy

from talos.client.endpoint import Endpoint
from talos.system.errors import UserError

_KINDS = {
    "http": (ProxyType.HTTP, 80),
    "socks5": (ProxyType.SOCKS5, 1080),
    "socks5h": (ProxyType.SOCKS5, 1080),
}
"""By scheme, with the port of a URL that has none."""


async def connect_through(proxy_url: str, endpoint: Endpoint) -> socket.socket:
    """A connected socket whose other end is the endpoint; the proxy resolves its name."""
    url = urlsplit(proxy_url)
    if url.scheme not in _KINDS or not url.hostname:
        known = ", ".join(f"{scheme}://" for scheme in _KINDS)
        raise UserError(f'"{proxy_url}" is no known kind of proxy', where="proxy-url", hint=f"use {known}")
    kind, port = _KINDS[url.scheme]
    proxy = Proxy(
        kind,
        url.hostname,
        url.port or port,
        username=unquote(url.username or "") or None,
        password=unquote(url.password or "") or None,
        rdns=True,
    )
    try:
        return await proxy.connect(endpoint.host, endpoint.port)
    except ProxyError as error:
        raise OSError(0, f"the proxy {url.hostname} refuses: {error}") from error
