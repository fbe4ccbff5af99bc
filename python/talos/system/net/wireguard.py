"""WireGuard links: keys and peers, over generic netlink."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class WireguardPeer:
    """The other end of a tunnel; keys in base64, empty for none. ``keepalive`` in seconds, 0 for never."""

    public_key: str
    preshared_key: str = ""
    endpoint: tuple[IPv4Address | IPv6Address, int] | None = None
    keepalive: int = 0
    networks: frozenset[IPv4Network | IPv6Network] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class WireguardState:
    """A WireGuard link's own settings, and its peers by public key."""

    private_key: str = ""
    public_key: str = ""
    listen_port: int = 0
    mark: int = 0
    peers: tuple[WireguardPeer, ...] = ()


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


async def read_wireguard(name: str) -> WireguardState:
    """What the kernel has, on asyncio; NetlinkError."""
    from pyroute2.netlink.generic.wireguard import AsyncWireGuard

    async with AsyncWireGuard() as opened:
        device: Any = opened
        messages: list[Any] = [message async for message in await device.info(name)]
    peers: dict[str, WireguardPeer] = {}
    for message in messages:
        for item in message.get("WGDEVICE_A_PEERS") or ():
            peer = _parse_peer(item)
            # A peer with many networks is continued in the next message.
            known = peers.get(peer.public_key)
            if known is not None:
                peer = _join(known, peer)
            peers[peer.public_key] = peer
    first: Any = messages[0]
    return WireguardState(
        private_key=_key(first.get("WGDEVICE_A_PRIVATE_KEY")),
        public_key=_key(first.get("WGDEVICE_A_PUBLIC_KEY")),
        listen_port=first.get("WGDEVICE_A_LISTEN_PORT") or 0,
        mark=first.get("WGDEVICE_A_FWMARK") or 0,
        peers=tuple(peers.values()),
    )


async def change_wireguard(name: str, change: WireguardChange) -> None:
    """Make changes, on asyncio: peers that are not named stay as they are; NetlinkError."""
    from pyroute2.netlink.generic.wireguard import AsyncWireGuard

    async with AsyncWireGuard() as opened:
        device: Any = opened
        settings = {
            "private_key": change.private_key,
            "listen_port": change.listen_port,
            "fwmark": change.mark,
        }
        settings = {key: value for key, value in settings.items() if value is not None}
        if settings:
            await device.set(name, **settings)
        for key in change.removed:
            await device.set(name, peer={"public_key": key, "remove": True})
        for peer in change.peers:
            await device.set(name, peer=_format_peer(peer))


def _format_peer(peer: WireguardPeer) -> dict[str, Any]:
    formatted: dict[str, Any] = {
        "public_key": peer.public_key,
        # All zeros is none.
        "preshared_key": peer.preshared_key or b64encode(bytes(32)).decode(),
        "persistent_keepalive": peer.keepalive,
        "replace_allowed_ips": True,
        "allowed_ips": sorted(map(str, peer.networks)),
    }
    if peer.endpoint is not None:
        formatted["endpoint_addr"], formatted["endpoint_port"] = str(peer.endpoint[0]), peer.endpoint[1]
    return formatted


def _parse_peer(item: Any) -> WireguardPeer:
    endpoint = item.get("WGPEER_A_ENDPOINT")
    preshared = _key(item.get("WGPEER_A_PRESHARED_KEY"))
    return WireguardPeer(
        public_key=_key(item.get("WGPEER_A_PUBLIC_KEY")),
        preshared_key="" if preshared == b64encode(bytes(32)).decode() else preshared,
        endpoint=(ip_address(endpoint["addr"]), endpoint["port"]) if endpoint else None,
        keepalive=item.get("WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL") or 0,
        networks=frozenset(ip_network(found["addr"]) for found in item.get("WGPEER_A_ALLOWEDIPS") or ()),
    )


def _join(known: WireguardPeer, more: WireguardPeer) -> WireguardPeer:
    return WireguardPeer(
        public_key=known.public_key,
        preshared_key=known.preshared_key,
        endpoint=known.endpoint,
        keepalive=known.keepalive,
        networks=known.networks | more.networks,
    )


def _key(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
