"""Environment variables, and which proxy they name for a host."""

import base64
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from talos.system.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyServer:
    """A proxy, and the header that authenticates the node to it, if there is one."""

    host: str
    port: int
    headers: Mapping[str, str]


def parse_environment(lines: Iterable[str]) -> dict[str, str]:
    """The variables of lines such as ``name=value``; one without a value is empty."""
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def find_server(environment: Mapping[str, str], target: SplitResult) -> ProxyServer | None:
    """The proxy for a URL; UserError when it is none that is understood."""
    setting = find_proxy(target.scheme, target.hostname or "", environment)
    if not setting:
        return None
    where = f"the environment's {target.scheme}_proxy"
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


def find_proxy(scheme: str, host: str, environment: Mapping[str, str]) -> str:
    """The URL of the proxy for a host, empty for none; names of both cases are common.

    ``no_proxy`` has names, which stand for those below them, too, addresses, networks, or ``*``.
    """
    settings = {key.lower(): value for key, value in environment.items()}
    if any(_matches(host, entry.strip()) for entry in settings.get("no_proxy", "").split(",")):
        return ""
    return settings.get(f"{scheme}_proxy", "")


def _matches(host: str, entry: str) -> bool:
    name = entry.lstrip(".")
    if not name:
        return False
    if name == "*" or host == name or host.endswith(f".{name}"):
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False
