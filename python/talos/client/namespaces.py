"""Where containers are: the system's, or Kubernetes'."""

from talos.api.common.common_pb2 import ContainerdNamespace, ContainerDriver

SYSTEM, KUBERNETES = "system", "k8s.io"
"""containerd's namespaces."""
NAMESPACES = {
    "cri": (ContainerDriver.CRI, ContainerdNamespace.NS_CRI),
    "system": (ContainerDriver.CRI, ContainerdNamespace.NS_SYSTEM),
    "inmem": (ContainerDriver.CONTAINERD, ContainerdNamespace.NS_SYSTEM),
}
"""By the names that commands have for them, whose images they are: driver and namespace."""


def container_place(*, is_kubernetes: bool) -> tuple[str, ContainerDriver]:
    """The namespace and the driver through which its containers are seen."""
    return (KUBERNETES, ContainerDriver.CRI) if is_kubernetes else (SYSTEM, ContainerDriver.CONTAINERD)


def pod_member(container: str, pod: str) -> str:
    """A container's name, drawn below its pod when it belongs to one."""
    return f"└─ {container}" if pod and container != pod else container
