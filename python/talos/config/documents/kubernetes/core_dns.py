"""``KubeCoreDNSConfig``: the cluster's DNS server."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeCoreDNSConfig(Document):
    """The cluster's DNS server."""

    kind: ClassVar[str] = "KubeCoreDNSConfig"

    enabled: bool | None = setting("enable it")
    image: str | None = setting("container image (default: registry.k8s.io/coredns/coredns:v1.14.7)")
