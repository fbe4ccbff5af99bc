"""``KubeFlannelCNIConfig``: the pod network, flannel."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import PORT, UINT32, Document, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeFlannelCNIConfig(Document):
    """The pod network, flannel."""

    kind: ClassVar[str] = "KubeFlannelCNIConfig"

    backend_type: str | None = setting("how packets are carried")
    backend_port: int | None = setting("port for them", bounds=PORT)
    backend_mtu: int | None = setting(
        "largest packet (default: auto (KubeSpan MTU with KubeSpan))", key="backendMTU", bounds=UINT32
    )
    backend_extra_config: Unstructured | None = setting("further settings of the backend")
    resources: Unstructured | None = setting("CPU and memory")
    extra_args: tuple[str, ...] | None = setting("further command line arguments", example=["--iface=eth1"])
    kube_network_policies_enabled: bool | None = setting("enforce network policies")
