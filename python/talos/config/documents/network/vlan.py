"""``VLANConfig``: a VLAN on a link."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.network.addressing import AddressConfig, RouteConfig
from talos.config.schema import UINT16, UINT32, Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class VLANConfig(Document):
    """A VLAN on a link."""

    kind: ClassVar[str] = "VLANConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the VLAN link", default="")
    vlan_id: int = setting("number of the VLAN", key="vlanID", default=0, bounds=UINT16)
    vlan_mode: str | None = setting("kind of VLAN tag (default: 802.1q)", allowed=("802.1q", "802.1ad"))
    parent: str = setting("parent link", default="")
    up: bool | None = setting("set the link up")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    addresses: tuple[AddressConfig, ...] | None = setting("addresses with prefix length")
    routes: tuple[RouteConfig, ...] | None = setting("routes through the link")
    multicast: bool | None = setting("receive multicast")
