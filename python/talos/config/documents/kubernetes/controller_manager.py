"""``KubeControllerManagerConfig``: settings of kube-controller-manager."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config import contract
from talos.config.schema import Document, setting
from talos.config.values import Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeControllerManagerConfig(Document):
    """kube-controller-manager."""

    kind: ClassVar[str] = "KubeControllerManagerConfig"

    enabled: bool | None = setting("enable it")
    image: str = setting(
        f"container image (default: {contract.KUBE_CONTROLLER_MANAGER_IMAGE}:v{contract.KUBERNETES_VERSION})",
        default="",
    )
    extra_args: Args | None = setting("further command line arguments")
    env: Mapping[str, str] | None = setting("environment variables", private=True)
    resources: Unstructured | None = setting("CPU and memory")
