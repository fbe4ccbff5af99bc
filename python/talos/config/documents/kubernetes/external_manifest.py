"""``KubeExternalManifestConfig``: manifests fetched from a URL and applied when the cluster starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Url


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeExternalManifestConfig(Document):
    """Manifests fetched from a URL and applied when the cluster starts."""

    kind: ClassVar[str] = "KubeExternalManifestConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the manifest", default="")
    headers: Mapping[str, str] | None = setting("headers to fetch it with", private=True)
    url: Url = setting("URL", default=Url(""), schemes=("http", "https"), private=True)
