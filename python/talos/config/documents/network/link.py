"""``LinkConfig``: addresses and routes of an existing link."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.network.addressing import AddressConfig, RouteConfig
from talos.config.schema import UINT32, Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig(Document):
    """Addresses and routes of an existing link."""

    kind: ClassVar[str] = "LinkConfig"
    named: ClassVar[bool] = True

    name: str = setting("link to configure", default="")
    up: bool | None = setting("set the link up")
    mtu: int | None = setting("largest packet", bounds=UINT32)
    addresses: tuple[AddressConfig, ...] | None = setting("addresses with prefix length")
    routes: tuple[RouteConfig, ...] | None = setting("routes through the link")
    multicast: bool | None = setting("receive multicast")
