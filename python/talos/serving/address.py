"""Addresses that servers of a workstation listen on."""

from talos.system.errors import UserError

_MAX_PORT = (1 << 16) - 1


def parse_address(text: str, where: str, example: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[IPV6]:PORT`` or ``:PORT``; UserError."""
    host, colon, port = text.rpartition(":")
    is_bare = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > _MAX_PORT or is_bare:
        raise UserError(f'"{text}" is no address with a port', where=where, hint=f"write it like {example}")
    return host.strip("[]"), int(port)
