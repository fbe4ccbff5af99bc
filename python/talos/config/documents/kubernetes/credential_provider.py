"""``KubeCredentialProviderConfig``: credential providers of the kubelet for pulling images."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Merge, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeCredentialProviderConfig(Document):
    """Credential providers of the kubelet for pulling images."""

    kind: ClassVar[str] = "KubeCredentialProviderConfig"

    configuration: Unstructured | None = setting("the configuration object", merge=Merge.REPLACE)
