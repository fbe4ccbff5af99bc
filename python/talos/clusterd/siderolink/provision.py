"""SideroLink's call ``Provision``: what a node sends, and what of the reply it takes.

The server is outside, and its reply becomes a part of the node's network: it can give the node an address in
a network of SideroLink's, with itself at the other end, and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Interface

from talos.api.rpc import Transport
from talos.api.service_endpoint import Endpoint, parse_endpoint
from talos.api.siderolink.provision_pb2 import ProvisionRequest, ProvisionResponse
from talos.pki.wireguard import is_key
from talos.rpc.port.addresses import is_siderolink

METHOD = "/sidero.link.ProvisionService/Provision"
CALL_TIMEOUT = 30.0
"""Seconds, as upstream."""
MAX_REPLY = 16 * 1024
"""Bytes."""
MAX_ENDPOINTS = 16
_MIN_PREFIX, _MAX_PREFIX = 64, 127
"""Bits that a network of SideroLink's has at least, and of one with room for two ends at most."""
_SHOWN = 80
"""Characters of a value in an error."""
_MAX_REASON = 200
"""Characters of an error, which may be the server's."""

type Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrollment:
    """Which server is called, and what shows it the machine; whether WireGuard's packets go over gRPC."""

    server: Endpoint
    has_tunnel: bool
    node_uuid: str
    join_token: str = field(repr=False)
    unique_token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionedLink:
    """Both ends of the link; ``endpoints`` are where the server's may be reached, in the order of trial.

    With WireGuard over gRPC there are none: the server is called again, by the name ``stream_peer``.
    """

    node_address: IPv6Interface
    server_address: IPv6Address
    server_key: str
    endpoints: tuple[Endpoint, ...] = ()
    stream_peer: str = ""


async def provision(
    transport: Transport, enrollment: Enrollment, *, public_key: str, version: str
) -> ProvisionedLink:
    """Make the call. RpcError; ValueError when the reply can't be used, with a short part of it."""
    request = ProvisionRequest(
        node_uuid=enrollment.node_uuid,
        node_public_key=public_key,
        node_unique_token=enrollment.unique_token,
        talos_version=version,
    )
    if enrollment.join_token:
        request.join_token = enrollment.join_token
    if enrollment.has_tunnel:
        request.wireguard_over_grpc = True
    reply = await transport.unary(METHOD, request, ProvisionResponse, timeout=CALL_TIMEOUT)
    return parse_reply(reply, has_tunnel=enrollment.has_tunnel)


def parse_reply(reply: ProvisionResponse, *, has_tunnel: bool) -> ProvisionedLink:
    """ValueError."""
    if has_tunnel != bool(reply.grpc_peer_addr_port):
        offer = "no WireGuard over gRPC" if has_tunnel else "WireGuard over gRPC alone"
        raise ValueError(f"the server offers {offer}: change grpc_tunnel in the URL of its API")
    if not is_key(reply.server_public_key):
        raise ValueError(f"server_public_key {_show(reply.server_public_key)} is no key of WireGuard")
    node = _parse_interface(reply.node_address_prefix)
    server = _parse_address("server_address", reply.server_address)
    if server not in node.network or server == node.ip:
        raise ValueError(f"server_address {server} is no other address of the node's network {node.network}")
    return ProvisionedLink(
        node_address=node,
        server_address=server,
        server_key=reply.server_public_key,
        endpoints=() if has_tunnel else _parse_endpoints(reply.server_endpoint),
        stream_peer=_parse_stream_peer(reply.grpc_peer_addr_port) if has_tunnel else "",
    )


def shorten(reason: str) -> str:
    """On one line, for the log."""
    return " ".join(reason.split())[:_MAX_REASON]


def check_endpoint(address: Address) -> None:
    """ValueError for what is no other machine's address outside of the link."""
    is_elsewhere = not (address.is_loopback or address.is_unspecified or address.is_multicast)
    if not is_elsewhere or is_siderolink(address):
        raise ValueError(f"server_endpoint {address} is no address that the server can have")


def _parse_interface(text: str) -> IPv6Interface:
    address, slash, bits = text.partition("/")
    is_number = bits.isascii() and bits.isdecimal() and len(bits) < len("1000")
    if not slash or not is_number or not _MIN_PREFIX <= int(bits) <= _MAX_PREFIX:
        limits = f"{_MIN_PREFIX} to {_MAX_PREFIX}"
        raise ValueError(f"node_address_prefix {_show(text)} is no address of a network of {limits} bits")
    return IPv6Interface((_parse_address("node_address_prefix", address), int(bits)))


def _parse_address(name: str, text: str) -> IPv6Address:
    try:
        address = IPv6Address(text)
    except ValueError:
        address = None
    if address is None or address.scope_id is not None or not is_siderolink(address):
        raise ValueError(f"{name} {_show(text)} is no address of SideroLink's (fd…, 03 in the eighth byte)")
    return address


def _parse_stream_peer(text: str) -> str:
    """As the server has it: it finds the machine by this text."""
    try:
        IPv6Address(parse_endpoint("" if "/" in text else text).host)
    except ValueError:
        raise ValueError(f"server: grpc_peer_addr_port {_show(text)} is no address with a port") from None
    return text


def _parse_endpoints(texts: Sequence[str]) -> tuple[Endpoint, ...]:
    if not 0 < len(texts) <= MAX_ENDPOINTS:
        raise ValueError(f"server_endpoint has {len(texts)} values, not 1 to {MAX_ENDPOINTS}")
    found: list[Endpoint] = []
    for text in texts:
        try:
            found.append(parse_endpoint("" if "/" in text else text))
        except ValueError as error:
            raise ValueError(f"server_endpoint {_show(text)}: {error}") from None
    # The order on the wire, as upstream's: the first and the last are exchanged.
    found[0], found[-1] = found[-1], found[0]
    return tuple(found)


def _show(text: str) -> str:
    """In quotes and on one line."""
    return repr(text[:_SHOWN])
