"""SideroLink as network specs: the link and its address."""

from ipaddress import ip_address

from google.protobuf.duration_pb2 import Duration

from talos.api.addresses import make_host_prefix, make_prefix
from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import AddressSpecSpec, LinkSpecSpec, WireguardPeer, WireguardSpec
from talos.api.definitions.siderolink_pb2 import TunnelSpec
from talos.api.service_endpoint import parse_endpoint
from talos.clusterd.siderolink.provision import Address, ProvisionedLink

MTU = 1280
"""Bytes: the least of IPv6, which passes everywhere."""
KEEPALIVE = 25
"""Seconds: within what routers with address translation remember a sender."""
_LAYER = enums.CONFIG_OPERATOR


def make_link_id(name: str) -> str:
    """Of the link among those of its layer."""
    return f"operator/{name}"


def make_link(
    name: str, private_key: str, reply: ProvisionedLink, endpoint: tuple[Address, int]
) -> LinkSpecSpec:
    """The tunnel, whose only peer is the server."""
    host, port = endpoint
    peer = WireguardPeer(
        public_key=reply.server_key,
        endpoint=f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}",
        persistent_keepalive_interval=Duration(seconds=KEEPALIVE),
        allowed_ips=[make_host_prefix(reply.server_address)],
    )
    return LinkSpecSpec(
        name=name,
        logical=True,
        up=True,
        mtu=MTU,
        kind="wireguard",
        type=enums.LINK_NONE,
        wireguard=WireguardSpec(private_key=private_key, peers=[peer]),
        config_layer=_LAYER,
    )


def make_address(name: str, reply: ProvisionedLink) -> AddressSpecSpec:
    """The node's address, whose network leads to the server."""
    return AddressSpecSpec(
        address=make_prefix(reply.node_address),
        link_name=name,
        family=enums.FAMILY_INET6,
        scope=enums.SCOPE_GLOBAL,
        flags=enums.ADDRESS_PERMANENT,
        config_layer=_LAYER,
    )


def make_address_id(name: str, reply: ProvisionedLink) -> str:
    """Of the address among those of its layer."""
    return f"{make_link_id(name)}/{reply.node_address}"


def make_tunnel(name: str, api_endpoint: str, reply: ProvisionedLink) -> TunnelSpec:
    """What shows the stream that carries the link's packets."""
    endpoint = parse_endpoint(reply.stream_peer)
    peer = NetIPPort(ip=ip_address(endpoint.host).packed, port=endpoint.port)
    return TunnelSpec(api_endpoint=api_endpoint, link_name=name, mtu=MTU, node_address=peer)
