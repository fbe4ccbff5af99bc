"""WireGuard links: keys and peers, over generic netlink."""

import socket
import struct
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from talos.system.net.netlink import (
    NETLINK_GENERIC,
    NLM_F_DUMP,
    Netlink,
    iterate_attributes,
    make_attribute,
    make_generic,
    make_nested,
    parse_attributes,
    strip_generic,
)

# <linux/wireguard.h>
_FAMILY = "wireguard"
_GET_DEVICE, _SET_DEVICE = 0, 1
_IFNAME, _PRIVATE_KEY, _PUBLIC_KEY, _LISTEN_PORT, _MARK, _PEERS = 2, 3, 4, 6, 7, 8
_PEER_PUBLIC_KEY, _PEER_PRESHARED_KEY, _PEER_FLAGS, _PEER_ENDPOINT = 1, 2, 3, 4
_PEER_KEEPALIVE, _PEER_HANDSHAKE, _PEER_RECEIVED, _PEER_SENT, _PEER_NETWORKS = 5, 6, 7, 8, 9
_NETWORK_FAMILY, _NETWORK_ADDRESS, _NETWORK_LENGTH = 1, 2, 3
_REMOVE_ME, _REPLACE_NETWORKS = 1, 2
_KEY_BYTES, _SOCKADDR_BYTES = 32, 16
_TIME = struct.Struct("=qq")
"""A ``struct __kernel_timespec``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireguardPeer:
    """The other end of a tunnel; keys in base64, empty for none. ``keepalive`` in seconds, 0 for never."""

    public_key: str
    preshared_key: str = ""
    endpoint: tuple[IPv4Address | IPv6Address, int] | None = None
    keepalive: int = 0
    networks: frozenset[IPv4Network | IPv6Network] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class WireguardTraffic:
    """What has passed between the ends: bytes, and the last handshake in seconds since the epoch, or 0."""

    last_handshake: float = 0.0
    received: int = 0
    sent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WireguardState:
    """A WireGuard link's own settings, and its peers by public key."""

    private_key: str = ""
    public_key: str = ""
    listen_port: int = 0
    mark: int = 0
    peers: tuple[WireguardPeer, ...] = ()
    traffic: Mapping[str, WireguardTraffic] = field(default_factory=dict[str, WireguardTraffic])
    """By public key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireguardChange:
    """What is to change; None and what is empty stay as they are. ``removed`` are public keys."""

    private_key: str | None = None
    listen_port: int | None = None
    mark: int | None = None
    removed: Sequence[str] = ()
    peers: Sequence[WireguardPeer] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to change."""
        settings = (self.private_key, self.listen_port, self.mark)
        return any(setting is not None for setting in settings) or bool(self.removed or self.peers)

    def describe(self) -> str:
        """What changes, without secrets."""
        settings = {"private key": self.private_key, "port": self.listen_port, "mark": self.mark}
        words = [name for name, value in settings.items() if value is not None]
        words += [f"peer {key} removed" for key in self.removed]
        words += [f"peer {peer.public_key}" for peer in self.peers]
        return ", ".join(words)


def read_wireguard(name: str) -> WireguardState:
    """What the kernel has; OSError."""
    with Netlink(NETLINK_GENERIC) as netlink:
        request = make_generic(_GET_DEVICE, make_attribute(_IFNAME, name))
        answers = netlink.request(netlink.find_family(_FAMILY), request, flags=NLM_F_DUMP)
    messages = [parse_attributes(strip_generic(answer)) for answer in answers]
    peers: dict[str, WireguardPeer] = {}
    traffic: dict[str, WireguardTraffic] = {}
    for message in messages:
        for _, item in iterate_attributes(message.get(_PEERS, b"")):
            attributes = parse_attributes(item)
            peer = _parse_peer(attributes)
            # A peer with many networks is continued in the next message.
            known = peers.get(peer.public_key)
            if known is None:
                traffic[peer.public_key] = _parse_traffic(attributes)
            else:
                peer = replace(known, networks=known.networks | peer.networks)
            peers[peer.public_key] = peer
    first = messages[0] if messages else {}
    return WireguardState(
        private_key=_format_key(first.get(_PRIVATE_KEY, b"")),
        public_key=_format_key(first.get(_PUBLIC_KEY, b"")),
        listen_port=int.from_bytes(first.get(_LISTEN_PORT, b""), sys.byteorder),
        mark=int.from_bytes(first.get(_MARK, b""), sys.byteorder),
        peers=tuple(peers.values()),
        traffic=traffic,
    )


def change_wireguard(name: str, change: WireguardChange) -> None:
    """Make the changes; peers that are not named stay as they are. OSError."""
    device = make_attribute(_IFNAME, name)
    settings = [device]
    if change.private_key is not None:
        settings.append(make_attribute(_PRIVATE_KEY, b64decode(change.private_key)))
    if change.listen_port is not None:
        settings.append(make_attribute(_LISTEN_PORT, struct.pack("=H", change.listen_port)))
    if change.mark is not None:
        settings.append(make_attribute(_MARK, change.mark))
    peers = [_make_removal(key) for key in change.removed] + [_make_peer(peer) for peer in change.peers]
    with Netlink(NETLINK_GENERIC) as netlink:
        family = netlink.find_family(_FAMILY)
        if len(settings) > 1:
            netlink.request(family, make_generic(_SET_DEVICE, *settings))
        # One message has no room for many peers.
        for peer in peers:
            netlink.request(family, make_generic(_SET_DEVICE, device, make_nested(_PEERS, peer)))


def _make_removal(key: str) -> bytes:
    return make_nested(
        0, make_attribute(_PEER_PUBLIC_KEY, b64decode(key)), make_attribute(_PEER_FLAGS, _REMOVE_ME)
    )


def _make_peer(peer: WireguardPeer) -> bytes:
    parts = [
        make_attribute(_PEER_PUBLIC_KEY, b64decode(peer.public_key)),
        # All zeros is none.
        make_attribute(_PEER_PRESHARED_KEY, b64decode(peer.preshared_key) or bytes(_KEY_BYTES)),
        make_attribute(_PEER_FLAGS, _REPLACE_NETWORKS),
        make_attribute(_PEER_KEEPALIVE, struct.pack("=H", peer.keepalive)),
    ]
    if peer.endpoint is not None:
        host, port = peer.endpoint
        head = struct.pack("=H", socket.AF_INET6 if host.version == 6 else socket.AF_INET)
        head += struct.pack(">H", port)
        body = bytes(4) + host.packed + bytes(4) if host.version == 6 else host.packed + bytes(8)
        parts.append(make_attribute(_PEER_ENDPOINT, head + body))
    networks = [
        make_nested(
            0,
            make_attribute(
                _NETWORK_FAMILY,
                struct.pack("=H", socket.AF_INET6 if network.version == 6 else socket.AF_INET),
            ),
            make_attribute(_NETWORK_ADDRESS, network.network_address.packed),
            make_attribute(_NETWORK_LENGTH, bytes((network.prefixlen,))),
        )
        for network in sorted(peer.networks, key=str)
    ]
    return make_nested(0, *parts, make_nested(_PEER_NETWORKS, *networks))


def _parse_peer(item: dict[int, bytes]) -> WireguardPeer:
    preshared = item.get(_PEER_PRESHARED_KEY, b"")
    found: set[IPv4Network | IPv6Network] = set()
    for _, data in iterate_attributes(item.get(_PEER_NETWORKS, b"")):
        network = parse_attributes(data)
        found.add(ip_network((network[_NETWORK_ADDRESS], network[_NETWORK_LENGTH][0])))
    return WireguardPeer(
        public_key=_format_key(item.get(_PEER_PUBLIC_KEY, b"")),
        preshared_key=_format_key(preshared) if any(preshared) else "",
        endpoint=_parse_endpoint(item.get(_PEER_ENDPOINT, b"")),
        keepalive=int.from_bytes(item.get(_PEER_KEEPALIVE, b""), sys.byteorder),
        networks=frozenset(found),
    )


def _parse_traffic(item: dict[int, bytes]) -> WireguardTraffic:
    seconds, nanoseconds = _TIME.unpack(item.get(_PEER_HANDSHAKE, bytes(_TIME.size)))
    return WireguardTraffic(
        last_handshake=seconds + nanoseconds / 1e9,
        received=int.from_bytes(item.get(_PEER_RECEIVED, b""), sys.byteorder),
        sent=int.from_bytes(item.get(_PEER_SENT, b""), sys.byteorder),
    )


def _parse_endpoint(data: bytes) -> tuple[IPv4Address | IPv6Address, int] | None:
    """A ``struct sockaddr_in`` or ``sockaddr_in6``."""
    if len(data) < _SOCKADDR_BYTES:
        return None
    [family], [port] = struct.unpack_from("=H", data), struct.unpack_from(">H", data, 2)
    packed = data[8:24] if family == socket.AF_INET6 else data[4:8]
    return ip_address(packed), port


def _format_key(key: bytes) -> str:
    return b64encode(key).decode() if any(key) else ""
