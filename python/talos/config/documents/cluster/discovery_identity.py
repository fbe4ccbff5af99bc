"""``DiscoveryIdentityConfig``: id and shared secret of the cluster for discovery."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryIdentityConfig(Document):
    """Id and shared secret of the cluster for discovery."""

    kind: ClassVar[str] = "DiscoveryIdentityConfig"

    cluster_id: str = setting("the cluster's id for discovery", key="clusterID", default="")
    cluster_secret: str = setting("key that encrypts discovery data", default="", secret=True)
