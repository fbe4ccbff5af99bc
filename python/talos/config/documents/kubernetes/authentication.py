"""``KubeAuthenticationConfig``: how callers of kube-apiserver authenticate."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Merge, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeAuthenticationConfig(Document):
    """How callers of kube-apiserver authenticate."""

    kind: ClassVar[str] = "KubeAuthenticationConfig"

    configuration: Unstructured | None = setting("the configuration object", merge=Merge.REPLACE)
