"""``KubeletConfig``: settings of the kubelet."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config import contract
from talos.config.schema import Document, setting
from talos.config.values import NOTHING, Args, Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfig(Document):
    """The kubelet."""

    kind: ClassVar[str] = "KubeletConfig"

    image: str = setting(
        f"container image (default: {contract.KUBELET_IMAGE}:v{contract.KUBERNETES_VERSION})", default=""
    )
    config: Unstructured = setting("its configuration file", default=NOTHING)
    extra_args: Args | None = setting(
        "further command line arguments", example={"feature-gates": "ServerSideApply=true"}
    )
    cluster_dns: tuple[str, ...] | None = setting(
        "addresses of the cluster's DNS servers", key="clusterDNS", example=["10.96.0.10"]
    )
    default_runtime_seccomp_profile_enabled: bool | None = setting(
        "use the runtime's default seccomp profile"
    )
