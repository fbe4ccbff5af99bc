"""``KubeProxyConfig``: settings of kube-proxy."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import NOTHING, Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeProxyConfig(Document):
    """kube-proxy."""

    kind: ClassVar[str] = "KubeProxyConfig"

    enabled: bool | None = setting("enable it (default: true)")
    image: str = setting("container image (default: registry.k8s.io/kube-proxy:v1.37.0-rc.1)", default="")
    mode: str | None = setting("how services are routed (default: nftables)")
    config: Unstructured = setting("its configuration file", default=NOTHING)
    extra_args: Args | None = setting("further command line arguments")
    resources: Unstructured | None = setting("CPU and memory")
