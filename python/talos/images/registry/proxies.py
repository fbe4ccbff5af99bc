"""The way to registries through the HTTP proxies of the machine config's environment."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from talos.system.errors import UserError
from talos.system.net.proxies import find_proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyServer:
    """A proxy, and the header that authenticates the node to it, if there is one."""

    host: str
    port: int
    headers: Mapping[str, str]


def find_server(environment: Mapping[str, str], target: SplitResult) -> ProxyServer | None:
    """The proxy for a URL; UserError when it is none that is understood."""
    setting = find_proxy(target.scheme, target.hostname or "", environment)
    if not setting:
        return None
    where = f"machine.env.{target.scheme}_proxy"
    try:
        url = urlsplit(setting if "://" in setting else f"http://{setting}")
        host, port = url.hostname, url.port or 80
    except ValueError:
        raise UserError("it is no URL", where=where) from None
    if url.scheme != "http" or not host:
        raise UserError(f"a proxy of the kind {url.scheme!r}", where=where, hint="use http://host:port")
    headers: dict[str, str] = {}
    if url.username:
        pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return ProxyServer(host=host, port=port, headers=headers)
