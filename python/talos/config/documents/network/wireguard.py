"""``WireguardConfig``: a WireGuard link."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.network.addressing import AddressConfig, RouteConfig
from talos.config.schema import PORT, UINT32, Document, Section, setting
from talos.config.values import AddressPort, Duration, Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class WireguardPeer(Section):
    """Peers."""

    public_key: str = setting("the peer's public key", default="")
    preshared_key: str | None = setting("additional symmetric key", secret=True)
    endpoint: AddressPort | None = setting("address and port of the peer")
    persistent_keepalive_interval: Duration | None = setting("time between keepalives")
    allowed_ips: tuple[Prefix, ...] | None = setting("prefixes behind the peer", key="allowedIPs")


@dataclass(frozen=True, slots=True, kw_only=True)
class WireguardConfig(Document):
    """A WireGuard link."""

    kind: ClassVar[str] = "WireguardConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the link", default="")
    private_key: str = setting("private key", default="", secret=True)
    listen_port: int | None = setting("UDP port to listen on", bounds=PORT)
    firewall_mark: int | None = setting("mark on its own packets")
    peers: tuple[WireguardPeer, ...] | None = setting("the other ends")
    up: bool | None = setting("set the link up")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    addresses: tuple[AddressConfig, ...] | None = setting("addresses with prefix length")
    routes: tuple[RouteConfig, ...] | None = setting("routes through the link")
    multicast: bool | None = setting("receive multicast")
