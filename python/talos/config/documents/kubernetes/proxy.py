"""``KubeProxyConfig``: settings of kube-proxy."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config import contract
from talos.config.schema import Document, setting
from talos.config.values import NOTHING, Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeProxyConfig(Document):
    """kube-proxy."""

    kind: ClassVar[str] = "KubeProxyConfig"

    enabled: bool | None = setting("enable it (default: true)")
    image: str = setting(
        f"container image (default: {contract.KUBE_PROXY_IMAGE}:v{contract.KUBERNETES_VERSION})", default=""
    )
    mode: str | None = setting("how services are routed (default: nftables)")
    config: Unstructured = setting("its configuration file", default=NOTHING)
    extra_args: Args | None = setting("further command line arguments")
    resources: Unstructured | None = setting("CPU and memory")
