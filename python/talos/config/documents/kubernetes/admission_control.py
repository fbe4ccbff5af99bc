"""``KubeAdmissionControlConfig``: an admission plugin of kube-apiserver."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeAdmissionControlConfig(Document):
    """An admission plugin of kube-apiserver."""

    kind: ClassVar[str] = "KubeAdmissionControlConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the plugin", default="")
    configuration: Unstructured | None = setting("its configuration")
