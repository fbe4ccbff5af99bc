"""``KubeAPIServerConfig``: settings of kube-apiserver."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import PORT, Document, setting
from talos.config.values import Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeAPIServerConfig(Document):
    """kube-apiserver."""

    kind: ClassVar[str] = "KubeAPIServerConfig"

    image: str = setting("container image (default: registry.k8s.io/kube-apiserver:v1.37.0-rc.1)", default="")
    extra_args: Args | None = setting(
        "further command line arguments", example={"feature-gates": "ServerSideApply=true"}
    )
    env: Mapping[str, str] | None = setting("environment variables")
    resources: Unstructured | None = setting("CPU and memory")
    api_port: int | None = setting("port to listen on (default: 6443)", bounds=PORT)
    cert_extra_sans: tuple[str, ...] | None = setting(
        "further names and addresses in the server certificate",
        key="certExtraSANs",
        example=["k8s.example.com"],
    )
    startup_probes: bool | None = setting("use startup probes (default: true)")
