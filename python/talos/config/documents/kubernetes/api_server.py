"""``KubeAPIServerConfig``: settings of kube-apiserver."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.config import contract
from talos.config.schema import PORT, Document, setting
from talos.config.values import Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeAPIServerConfig(Document):
    """kube-apiserver."""

    kind: ClassVar[str] = "KubeAPIServerConfig"

    image: str = setting(
        f"container image (default: {contract.KUBE_API_SERVER_IMAGE}:v{contract.KUBERNETES_VERSION})",
        default="",
    )
    extra_args: Args | None = setting(
        "further command line arguments", example={"feature-gates": "ServerSideApply=true"}
    )
    env: Mapping[str, str] | None = setting("environment variables", private=True)
    resources: Unstructured | None = setting("CPU and memory")
    api_port: int | None = setting("port to listen on (default: 6443)", bounds=PORT)
    cert_extra_sans: tuple[str, ...] | None = setting(
        "further names and addresses in the server certificate",
        key="certExtraSANs",
        example=["k8s.example.com"],
    )
    startup_probes: bool | None = setting("use startup probes (default: true)")
