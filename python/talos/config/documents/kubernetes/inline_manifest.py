"""``KubeInlineManifestConfig``: manifests applied when the cluster starts."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeInlineManifestConfig(Document):
    """Manifests applied when the cluster starts."""

    kind: ClassVar[str] = "KubeInlineManifestConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the manifest", default="")
    manifest: str = setting("the manifest", default="", private=True)
