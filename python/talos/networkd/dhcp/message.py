"""DHCP messages: requests and replies. pyroute2 encodes and decodes them."""

import logging
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from pyroute2.dhcp.dhcp4msg import dhcp4msg
from pyroute2.dhcp.enums.dhcp import MessageType, Option

__all__ = ["MessageType", "Reply", "make_request", "parse_reply"]

# It warns of every damaged option: any machine on the link could fill the log.
logging.getLogger("pyroute2.dhcp").setLevel(logging.ERROR)

WANTED = (
    Option.SUBNET_MASK,
    Option.ROUTER,
    Option.NAME_SERVER,
    Option.HOST_NAME,
    Option.DOMAIN_NAME,
    Option.INTERFACE_MTU,
    Option.NTP_SERVERS,
    Option.LEASE_TIME,
    Option.SERVER_ID,
    Option.RENEWAL_TIME,
    Option.REBINDING_TIME,
    Option.DOMAIN_SEARCH,
    Option.CLASSLESS_STATIC_ROUTE,
)
"""The requested options. RFC 3442 demands classless routes before routers."""

_HEADER = 240
# BOOTP's smallest message; some servers drop what is shorter.
_MIN_MESSAGE = 300
_MAX_ANSWER = 1500
_REPLY = 2
_COOKIE = bytes((99, 130, 83, 99))
_MAC_TYPE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A server's reply."""

    type: MessageType
    address: str
    options: dict[str, Any]


def make_request(
    kind: MessageType,
    *,
    transaction: int,
    hardware_address: bytes,
    identifier: tuple[int, bytes] | None,
    seconds: int = 0,
    own: IPv4Address | None = None,
    requested: IPv4Address | None = None,
    server: IPv4Address | None = None,
) -> bytes:
    """A message to servers.

    ``own`` is the configured address, ``requested`` the one to be leased.
    ``identifier`` is option 61: its type and what follows.
    """
    options: dict[str, Any] = {
        "message_type": kind,
        "parameter_list": sorted(WANTED, key=lambda option: option != Option.CLASSLESS_STATIC_ROUTE),
        "max_msg_size": _MAX_ANSWER,
    }
    mac = hardware_address.hex(":")
    if identifier is not None:
        number, key = identifier
        options["client_id"] = {"type": number, "key": mac if number == _MAC_TYPE else key}
    if requested is not None:
        options["requested_ip"] = str(requested)
    if server is not None:
        options["server_id"] = str(server)
    message: Any = dhcp4msg(
        {
            "op": 1,
            "xid": transaction,
            "secs": min(seconds, 0xFFFF),
            "chaddr": mac,
            "ciaddr": str(own or IPv4Address(0)),
            "options": options,
        }
    )
    return bytes(message.encode().buf).ljust(_MIN_MESSAGE, b"\0")


def parse_reply(data: bytes, *, transaction: int, hardware_address: bytes) -> Reply | None:
    """A server's reply to this client; None when it is for another. ValueError when it is malformed."""
    if len(data) < _HEADER or data[0] != _REPLY or data[4:8] != transaction.to_bytes(4):
        return None
    if data[28 : 28 + len(hardware_address)] != hardware_address:
        return None
    if data[236:240] != _COOKIE:
        raise ValueError("not DHCP: the magic number is missing")
    try:
        message: Any = dhcp4msg(buf=data).decode()
        return Reply(
            type=MessageType(message["options"]["message_type"]),
            address=message["yiaddr"],
            options=dict(message["options"]),
        )
    except (ValueError, LookupError, TypeError, AssertionError, struct.error) as error:
        raise ValueError(f"malformed: {error!r}") from None
