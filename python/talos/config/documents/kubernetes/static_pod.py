"""``KubeStaticPodConfig``."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import REQUIRED, Document, Merge, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeStaticPodConfig(Document):
    """A pod that the kubelet runs without the API server."""

    kind: ClassVar[str] = "KubeStaticPodConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the pod", default=REQUIRED)
    pod: Unstructured = setting("the pod", default=REQUIRED, merge=Merge.REPLACE)
