"""``DummyLinkConfig``: a link without hardware, to hold addresses."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.network.addressing import AddressConfig, RouteConfig
from talos.config.schema import UINT32, Document, setting
from talos.config.values import HardwareAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class DummyLinkConfig(Document):
    """A link without hardware, to hold addresses."""

    kind: ClassVar[str] = "DummyLinkConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the link", default="")
    hardware_addr: HardwareAddress | None = setting("link-layer address")
    up: bool | None = setting("set the link up")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    addresses: tuple[AddressConfig, ...] | None = setting("addresses with prefix length")
    routes: tuple[RouteConfig, ...] | None = setting("routes through the link")
    multicast: bool | None = setting("receive multicast")
