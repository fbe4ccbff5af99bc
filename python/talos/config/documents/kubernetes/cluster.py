"""``KubeClusterConfig``: the Kubernetes cluster the node belongs to."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Url


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeClusterConfig(Document):
    """The Kubernetes cluster the node belongs to."""

    kind: ClassVar[str] = "KubeClusterConfig"

    cluster_name: str = setting("name of the cluster", default="")
    endpoint: Url = setting("URL of the Kubernetes API", default=Url(""), schemes=("https",))
