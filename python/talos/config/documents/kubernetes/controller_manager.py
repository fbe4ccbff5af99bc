"""``KubeControllerManagerConfig``: settings of kube-controller-manager."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeControllerManagerConfig(Document):
    """kube-controller-manager."""

    kind: ClassVar[str] = "KubeControllerManagerConfig"

    enabled: bool | None = setting("enable it")
    image: str = setting(
        "container image (default: registry.k8s.io/kube-controller-manager:v1.37.0-rc.1)", default=""
    )
    extra_args: Args | None = setting("further command line arguments")
    env: Mapping[str, str] | None = setting("environment variables")
    resources: Unstructured | None = setting("CPU and memory")
