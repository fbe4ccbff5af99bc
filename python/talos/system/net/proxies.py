"""Which proxy the usual environment variables name for a host."""

import ipaddress
from collections.abc import Mapping


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
