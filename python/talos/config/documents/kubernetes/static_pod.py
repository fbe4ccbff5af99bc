"""``KubeStaticPodConfig``: a pod that the kubelet runs without the API server."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Merge, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeStaticPodConfig(Document):
    """A pod that the kubelet runs without the API server."""

    kind: ClassVar[str] = "KubeStaticPodConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the pod", default="")
    pod: Unstructured | None = setting("the pod", merge=Merge.REPLACE, private=True)
