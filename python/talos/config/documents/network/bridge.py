"""``BridgeConfig``: a software switch that joins links."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.network.addressing import AddressConfig, RouteConfig
from talos.config.schema import UINT32, Document, Section, setting
from talos.config.values import HardwareAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSTPConfig(Section):
    """Spanning tree protocol."""

    enabled: bool | None = setting("run the spanning tree protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeVLANConfig(Section):
    """VLANs on the bridge."""

    filtering: bool | None = setting("keep VLANs apart")


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeConfig(Document):
    """A software switch that joins links."""

    kind: ClassVar[str] = "BridgeConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the bridge link", default="")
    hardware_addr: HardwareAddress | None = setting("link-layer address")
    links: tuple[str, ...] = setting("its links", default=())
    stp: BridgeSTPConfig | None = setting("spanning tree protocol")
    vlan: BridgeVLANConfig | None = setting("VLANs on the bridge")
    up: bool | None = setting("set the link up")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    addresses: tuple[AddressConfig, ...] | None = setting("addresses with prefix length")
    routes: tuple[RouteConfig, ...] | None = setting("routes through the link")
    multicast: bool | None = setting("receive multicast")
