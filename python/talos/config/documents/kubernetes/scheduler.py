"""``KubeSchedulerConfig``: settings of kube-scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import NOTHING, Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSchedulerConfig(Document):
    """kube-scheduler."""

    kind: ClassVar[str] = "KubeSchedulerConfig"

    enabled: bool | None = setting("enable it")
    image: str = setting("container image (default: registry.k8s.io/kube-scheduler:v1.37.0-rc.1)", default="")
    config: Unstructured = setting("its configuration file", default=NOTHING)
    extra_args: Args | None = setting("further command line arguments")
    env: Mapping[str, str] | None = setting("environment variables")
    resources: Unstructured | None = setting("CPU and memory")
