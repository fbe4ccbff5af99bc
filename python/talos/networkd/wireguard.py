"""A WireGuard link's spec: its peers, and how the kernel's differ from them."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address, ip_network

from google.protobuf.duration_pb2 import Duration

from talos.api.addresses import make_prefix
from talos.api.definitions.network_pb2 import WireguardPeer as PeerSpec
from talos.api.definitions.network_pb2 import WireguardSpec
from talos.api.durations import parse_duration
from talos.config.documents.network.wireguard import WireguardConfig
from talos.config.documents.network.wireguard import WireguardPeer as WireguardPeerConfig
from talos.config.documents.v1alpha1.device import DeviceWireguardConfig
from talos.resource.addresses import parse_interface
from talos.system.net.links import Address, Network
from talos.system.net.wireguard import WireguardChange, WireguardPeer, WireguardState

PEER_DOWN_INTERVAL = 180 + 5 + 90
"""Seconds without a handshake, as upstream: REJECT_AFTER_TIME, REKEY_TIMEOUT and REKEY_ATTEMPT_TIME."""
_KEY_BYTES = 32


def make_wireguard_spec(settings: WireguardConfig | DeviceWireguardConfig) -> WireguardSpec:
    """The spec of a config; ValueError, in which no secret is shown."""
    spec = WireguardSpec(
        private_key=_parse_key("privateKey", settings.private_key),
        listen_port=settings.listen_port or 0,
        firewall_mark=settings.firewall_mark or 0,
    )
    for peer in settings.peers or ():
        if peer.endpoint:
            parse_endpoint(peer.endpoint)
        preshared = peer.preshared_key if isinstance(peer, WireguardPeerConfig) else None
        spec.peers.add(
            public_key=_parse_key("publicKey", peer.public_key),
            preshared_key=_parse_key("presharedKey", preshared) if preshared else "",
            endpoint=peer.endpoint or "",
            persistent_keepalive_interval=Duration(
                seconds=_parse_keepalive(peer.persistent_keepalive_interval)
            ),
            allowed_ips=[make_prefix(ip_network(text, strict=False)) for text in peer.allowed_ips or ()],
        )
    return spec


def find_wireguard_change(
    spec: WireguardSpec, present: WireguardState, endpoints: Mapping[str, str]
) -> WireguardChange:
    """What has to change; peers that are as they shall be keep their sessions.

    ``endpoints``: what was set of each peer before, by its key. A peer that has moved on from there is
    reached where it is.
    """
    wanted = {peer.public_key: _read_peer(peer) for peer in spec.peers}
    have = {peer.public_key: peer for peer in present.peers}
    changed: list[WireguardPeer] = []
    for item in spec.peers:
        peer, old = wanted[item.public_key], have.get(item.public_key)
        if old is not None and (peer.endpoint is None or endpoints.get(item.public_key) == item.endpoint):
            peer = replace(peer, endpoint=old.endpoint)
        if peer != old:
            changed.append(peer)
    return WireguardChange(
        private_key=spec.private_key if _clamp(spec.private_key) != present.private_key else None,
        # Port 0 is one that the kernel chooses.
        listen_port=spec.listen_port if spec.listen_port not in (0, present.listen_port) else None,
        mark=spec.firewall_mark if spec.firewall_mark != present.mark else None,
        removed=[key for key in have if key not in wanted],
        peers=changed,
    )


def make_wireguard_status(state: WireguardState) -> WireguardSpec:
    """A link's keys and peers as the API shows them: without what is secret."""
    spec = WireguardSpec(public_key=state.public_key, listen_port=state.listen_port, firewall_mark=state.mark)
    for peer in sorted(state.peers, key=lambda peer: peer.public_key):
        spec.peers.add(
            public_key=peer.public_key,
            endpoint=format_endpoint(peer.endpoint) if peer.endpoint else "",
            persistent_keepalive_interval=Duration(seconds=peer.keepalive),
            allowed_ips=[make_prefix(network) for network in sorted(peer.networks, key=_sort_key)],
        )
    return spec


def parse_endpoint(text: str) -> tuple[Address, int]:
    """``10.0.0.1:51820`` or ``[fd00::1]:51820``; ValueError."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} is no address with a port")
    return ip_address(host.removeprefix("[").removesuffix("]")), int(port)


def _clamp(key: str) -> str:
    """A private key as the kernel keeps it, RFC 7748, section 5."""
    data = bytearray(b64decode(key))
    if len(data) != _KEY_BYTES:
        return key
    data[0] &= 0xF8
    data[-1] = data[-1] & 0x7F | 0x40
    return b64encode(data).decode()


def _parse_key(name: str, text: str | None) -> str:
    """A key in base64, in the form that the kernel's is compared with."""
    try:
        key = b64decode(text or "", validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise ValueError(f"{name} is no key of {_KEY_BYTES} bytes in base64")
    return b64encode(key).decode()


def _parse_keepalive(text: str | None) -> int:
    seconds = round(parse_duration(text)) if text else 0
    if not 0 <= seconds < 1 << 16:
        raise ValueError(f"persistentKeepaliveInterval {text} is not between 0s and 65535s")
    return seconds


def _read_peer(peer: PeerSpec) -> WireguardPeer:
    return WireguardPeer(
        public_key=peer.public_key,
        preshared_key=peer.preshared_key,
        endpoint=parse_endpoint(peer.endpoint) if peer.endpoint else None,
        keepalive=peer.persistent_keepalive_interval.seconds,
        networks=frozenset(parse_interface(prefix).network for prefix in peer.allowed_ips),
    )


def format_endpoint(endpoint: tuple[Address, int]) -> str:
    """As :func:`parse_endpoint` reads it."""
    host, port = endpoint
    return f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}"


def _sort_key(network: Network) -> tuple[int, bytes, int]:
    return network.version, network.network_address.packed, network.prefixlen
