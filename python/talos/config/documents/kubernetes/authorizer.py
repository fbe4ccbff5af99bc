"""``KubeAuthorizerConfig``: one of kube-apiserver's authorizers, in the order of the documents."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeAuthorizerConfig(Document):
    """One of kube-apiserver's authorizers, in the order of the documents."""

    kind: ClassVar[str] = "KubeAuthorizerConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the authorizer", default="")
    type: str | None = setting("kind of authorizer", allowed=("Node", "RBAC", "Webhook"))
    webhook: Unstructured | None = setting("settings of the webhook")
