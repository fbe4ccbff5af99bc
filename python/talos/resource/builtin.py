"""The resources that list the namespaces and types."""

from google.protobuf.message import Message

from talos.api.cosi.meta_pb2 import NamespaceSpec, ResourceDefinitionSpec
from talos.resource.changes import put
from talos.resource.kind import Kind
from talos.resource.kinds import NAMESPACE, REGISTRY, RESOURCE_DEFINITION
from talos.resource.state import State

OWNER = "runtime.Builtin"

NAMESPACES = {
    "meta": "Namespaces and resource definitions.",
    "cluster": "Cluster membership and identity.",
    "cluster-raw": "Cluster membership by source, before it is merged.",
    "config": "Machine configuration.",
    "containers": "Containers besides those of Kubernetes.",
    "controlplane": "Kubernetes control plane.",
    "cri": "Container runtime.",
    "etcd": "etcd.",
    "files": "Files that the system writes.",
    "hardware": "Hardware inventory.",
    "k8s": "Kubernetes on this node.",
    "kubespan": "Encrypted network between the nodes.",
    "network": "Network: merged specs and observed statuses.",
    "network-config": "Network specs of each source, before they are merged.",
    "perf": "Performance counters.",
    "runtime": "The running system.",
    "secrets": "Certificates, keys and tokens.",
    "security": "Security policies and their state.",
    "storage": "Disks and volumes.",
}
"""Every namespace and what it holds."""


async def register_builtin(state: State) -> None:
    """Describe every namespace and every kind in the State itself."""
    for name, description in NAMESPACES.items():
        await put(state, NAMESPACE, name, NamespaceSpec(description=description), owner=OWNER)
    for kind in REGISTRY.values():
        await put(state, RESOURCE_DEFINITION, kind.type.lower(), make_definition(kind), owner=OWNER)


def make_definition(kind: Kind[Message]) -> ResourceDefinitionSpec:
    """Describe a kind to clients: names, aliases, columns, sensitivity."""
    sensitivity = ResourceDefinitionSpec.SENSITIVE if kind.sensitive else ResourceDefinitionSpec.NON_SENSITIVE
    return ResourceDefinitionSpec(
        resource_type=kind.type,
        display_type=kind.display_type,
        default_namespace=kind.namespace,
        aliases=kind.aliases,
        all_aliases=kind.all_aliases,
        print_columns=[
            ResourceDefinitionSpec.PrintColumn(name=column.name, json_path=column.path)
            for column in kind.columns
        ],
        sensitivity=sensitivity,
    )
