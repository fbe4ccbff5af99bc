"""SideroLink as network specs: the link and its address."""

from google.protobuf.duration_pb2 import Duration

from talos.api.addresses import make_host_prefix, make_prefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import AddressSpecSpec, LinkSpecSpec, WireguardPeer, WireguardSpec
from talos.clusterd.siderolink.provision import Address, Provisioned
from talos.config.contract import SIDEROLINK_LINK

MTU = 1280
"""Bytes: the least of IPv6, which passes everywhere."""
KEEPALIVE = 25
"""Seconds: within what routers with address translation remember a sender."""
LINK_ID = f"operator/{SIDEROLINK_LINK}"
_LAYER = enums.CONFIG_OPERATOR


def make_link(private_key: str, reply: Provisioned, endpoint: tuple[Address, int]) -> LinkSpecSpec:
    """The tunnel, whose only peer is the server."""
    host, port = endpoint
    peer = WireguardPeer(
        public_key=reply.server_key,
        endpoint=f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}",
        persistent_keepalive_interval=Duration(seconds=KEEPALIVE),
        allowed_ips=[make_host_prefix(reply.server_address)],
    )
    return LinkSpecSpec(
        name=SIDEROLINK_LINK,
        logical=True,
        up=True,
        mtu=MTU,
        kind="wireguard",
        type=enums.LINK_NONE,
        wireguard=WireguardSpec(private_key=private_key, peers=[peer]),
        config_layer=_LAYER,
    )


def make_address(reply: Provisioned) -> AddressSpecSpec:
    """The node's address, whose network leads to the server."""
    return AddressSpecSpec(
        address=make_prefix(reply.node_address),
        link_name=SIDEROLINK_LINK,
        family=enums.FAMILY_INET6,
        scope=enums.SCOPE_GLOBAL,
        flags=enums.ADDRESS_PERMANENT,
        config_layer=_LAYER,
    )


def make_address_id(reply: Provisioned) -> str:
    """Of the address among those of its layer."""
    return f"{LINK_ID}/{reply.node_address}"
