"""``KubeSpanEndpointsConfig``: endpoints that the node announces beside its own addresses."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import AddressPort


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSpanEndpointsConfig(Document):
    """Endpoints that the node announces beside its own addresses."""

    kind: ClassVar[str] = "KubeSpanEndpointsConfig"

    extra_announced_endpoints: tuple[AddressPort, ...] | None = setting("addresses with port")
