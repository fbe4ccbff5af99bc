"""``KubeSchedulerConfig``: settings of kube-scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config import contract
from talos.config.schema import Document, setting
from talos.config.values import NOTHING, Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSchedulerConfig(Document):
    """kube-scheduler."""

    kind: ClassVar[str] = "KubeSchedulerConfig"

    enabled: bool | None = setting("enable it")
    image: str = setting(
        f"container image (default: {contract.KUBE_SCHEDULER_IMAGE}:v{contract.KUBERNETES_VERSION})",
        default="",
    )
    config: Unstructured = setting("its configuration file", default=NOTHING)
    extra_args: Args | None = setting("further command line arguments")
    env: Mapping[str, str] | None = setting("environment variables", private=True)
    resources: Unstructured | None = setting("CPU and memory")
