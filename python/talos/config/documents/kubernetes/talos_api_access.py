"""``KubeTalosAPIAccessConfig``: access of pods to the node's API."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeTalosAPIAccessConfig(Document):
    """Access of pods to the node's API."""

    kind: ClassVar[str] = "KubeTalosAPIAccessConfig"

    allowed_roles: tuple[str, ...] | None = setting("roles that pods may request")
    allowed_kubernetes_namespaces: tuple[str, ...] | None = setting("namespaces the pods must be in")
