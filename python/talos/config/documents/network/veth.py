"""``VethConfig``: a pair of links connected to each other."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.network.addressing import AddressConfig, RouteConfig
from talos.config.schema import UINT32, Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class VethPeerConfig(Section):
    """The other end."""

    name: str = setting("name of the other end", default="")
    up: bool | None = setting("set the link up")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    addresses: tuple[AddressConfig, ...] | None = setting("addresses with prefix length")
    routes: tuple[RouteConfig, ...] | None = setting("routes through the link")
    multicast: bool | None = setting("receive multicast")


@dataclass(frozen=True, slots=True, kw_only=True)
class VethConfig(Document):
    """A pair of links connected to each other."""

    kind: ClassVar[str] = "VethConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the link", default="")
    peer: VethPeerConfig = setting("the other end", default=VethPeerConfig())
    up: bool | None = setting("set the link up")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    addresses: tuple[AddressConfig, ...] | None = setting("addresses with prefix length")
    routes: tuple[RouteConfig, ...] | None = setting("routes through the link")
    multicast: bool | None = setting("receive multicast")
