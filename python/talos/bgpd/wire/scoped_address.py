"""Addresses of sockets: of a link-local one with its link."""

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from talos.bgpd.messages.prefixes import Address


@dataclass(frozen=True, slots=True)
class ScopedAddress:
    """An address; ``scope`` is the index of its link if it is link-local, else 0."""

    address: Address
    scope: int = 0

    @property
    def family(self) -> socket.AddressFamily:
        """That of its sockets."""
        return socket.AF_INET if self.address.version == 4 else socket.AF_INET6

    def make_address(self, port: int) -> tuple[Any, ...]:
        """As sockets have it."""
        if self.address.version == 4:
            return str(self.address), port
        return str(self.address), port, 0, self.scope


def parse_scoped_address(address: tuple[Any, ...]) -> ScopedAddress:
    """What a socket shows of its peer or of itself."""
    parsed = ip_address(address[0].partition("%")[0])
    return ScopedAddress(parsed, address[3] if parsed.version == 6 and parsed.is_link_local else 0)
