"""``VRFConfig``: a routing domain of its own."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.network.addressing import AddressConfig, RouteConfig
from talos.config.schema import UINT32, Document, setting
from talos.config.values import HardwareAddress, RoutingTable


@dataclass(frozen=True, slots=True, kw_only=True)
class VRFConfig(Document):
    """A routing domain of its own."""

    kind: ClassVar[str] = "VRFConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the VRF link", default="")
    hardware_addr: HardwareAddress | None = setting("link-layer address")
    links: tuple[str, ...] = setting("its links", default=())
    table: RoutingTable | None = setting("its routing table")
    up: bool | None = setting("set the link up")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    addresses: tuple[AddressConfig, ...] | None = setting("addresses with prefix length")
    routes: tuple[RouteConfig, ...] | None = setting("routes through the link")
    multicast: bool | None = setting("receive multicast")
