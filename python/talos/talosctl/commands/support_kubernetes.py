"""What of Kubernetes belongs into a support bundle: the nodes and the system's pods, without secrets."""

from talos.api.common.common_pb2 import ContainerDriver
from talos.api.machine.machine_pb2 import Container, ContainersRequest, ContainersResponse
from talos.api.rpc import Code, RpcError
from talos.client.namespaces import KUBERNETES
from talos.client.session import Session
from talos.kubernetes.access import parse_kubeconfig
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.talosctl.client.command import parts
from talos.talosctl.client.kubeconfig import fetch_kubeconfig
from talos.talosctl.output.yaml_text import dump_yaml

FOLDER = "kubernetesResources"
COLLECTIONS = {
    "nodes.yaml": "/api/v1/nodes",
    "systemPods.yaml": "/api/v1/namespaces/kube-system/pods",
}
SYSTEM_PODS = "kube-system/"


async def read_objects(session: Session) -> dict[str, bytes]:
    """The cluster's files by name; RpcError where the certificate or the cluster has no Kubernetes."""
    client = KubernetesClient(parse_kubeconfig(await fetch_kubeconfig(session, "")))
    try:
        found = {name: await client.call("GET", path) for name, path in COLLECTIONS.items()}
    except KubernetesError as error:
        raise RpcError(Code.UNAVAILABLE, f"Kubernetes: {error}") from None
    return {f"{FOLDER}/{name}": dump_yaml(objects).encode() for name, objects in found.items()}


async def find_containers(session: Session, node: str) -> list[str]:
    """The containers of the system's pods on a node, by the names that logs take; RpcError."""
    request = ContainersRequest(namespace=KUBERNETES, driver=ContainerDriver.CRI)
    reply = await session.unary(node, "/machine.MachineService/Containers", request, ContainersResponse)
    containers = [container for part in parts(reply, Container) for container in part.containers]
    return [
        container.id
        for container in containers
        if container.id != container.pod_id and container.id.startswith(SYSTEM_PODS)
    ]
