"""``KubeAuditPolicyConfig``: what kube-apiserver writes into its audit log."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Merge, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeAuditPolicyConfig(Document):
    """What kube-apiserver writes into its audit log."""

    kind: ClassVar[str] = "KubeAuditPolicyConfig"

    configuration: Unstructured | None = setting("the configuration object", merge=Merge.REPLACE)
