"""``KubeSpanConfig``: the encrypted network between all members."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import UINT32, Document, Section, setting
from talos.config.values import Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSpanFiltersConfig(Section):
    """Filters of endpoints and networks."""

    endpoints: tuple[str, ...] | None = setting("announced endpoints; ! excludes (default: (no filtering))")
    exclude_advertised_networks: tuple[Prefix, ...] | None = setting(
        "excluded networks (default: (no filtering))"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSpanConfig(Document):
    """The encrypted network between all members."""

    kind: ClassVar[str] = "KubeSpanConfig"

    enabled: bool | None = setting("enable it")
    advertise_kubernetes_networks: bool | None = setting("carry pod networks too")
    allow_down_peer_bypass: bool | None = setting("use the ordinary network while a peer is down")
    harvest_extra_endpoints: bool | None = setting("publish endpoints that peers were seen at")
    mtu: int | None = setting("largest packet (default: 1420)", bounds=UINT32)
    filters: KubeSpanFiltersConfig | None = setting("filters of endpoints and networks")
