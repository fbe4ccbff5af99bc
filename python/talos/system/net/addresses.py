"""Addresses between pyroute2's messages and what controllers compare."""

from ipaddress import ip_address, ip_interface
from typing import Any

from talos.system.net.links import Address, AddressState


def parse_address(message: Any) -> AddressState:
    """An address out of the kernel's message."""
    # On a point-to-point link IFA_ADDRESS is the other end's, IFA_LOCAL ours.
    own = message.get("IFA_LOCAL") or message.get("IFA_ADDRESS")
    return AddressState(
        link_index=message["index"],
        address=ip_interface(f"{own}/{message['prefixlen']}"),
        local=optional_address(message.get("IFA_LOCAL")),
        broadcast=optional_address(message.get("IFA_BROADCAST")),
        anycast=optional_address(message.get("IFA_ANYCAST")),
        multicast=optional_address(message.get("IFA_MULTICAST")),
        scope=message["scope"],
        # The header has room for eight flags only.
        flags=message.get("IFA_FLAGS") or message["flags"],
        priority=message.get("IFA_RT_PRIORITY") or 0,
    )


def make_address_attributes(address: AddressState) -> dict[str, Any]:
    """A request's attributes."""
    attributes: dict[str, Any] = {
        "index": address.link_index,
        "address": str(address.address.ip),
        "prefixlen": address.address.network.prefixlen,
        "scope": address.scope,
    }
    if address.flags:
        attributes["flags"] = address.flags
    if address.priority:
        attributes["rt_priority"] = address.priority
    return attributes


def optional_address(text: str | None) -> Address | None:
    """An address, if there is one."""
    return None if text is None else ip_address(text)
