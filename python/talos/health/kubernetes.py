"""The conditions of a healthy cluster that Kubernetes' own API shows; texts are upstream's."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from google.protobuf.empty_pb2 import Empty

from talos.api.definitions.k8s_pb2 import StaticPodStatusSpec
from talos.api.machine import machine_pb2 as machine
from talos.api.specs import parse_spec
from talos.health.calls import SERVICE, SKIPPED, ClusterCalls, ClusterNodes, Condition
from talos.resource import kinds
from talos.resource.objects import is_ready, to_plain

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods?labelSelector="

type Object = Mapping[str, Any]


def of_kubernetes(check: Condition) -> Condition:
    """A condition that is about nothing in a cluster whose nodes run no kubelet."""

    async def condition(calls: ClusterCalls, nodes: ClusterNodes) -> str:
        path = SERVICE + "ServiceList"
        reply = await calls.unary(nodes.control_plane[0], path, Empty(), machine.ServiceListResponse)
        services = {one.id for message in reply.messages for one in message.services}
        return await check(calls, nodes) if "kubelet" in services else SKIPPED

    return condition


async def check_nodes_report(calls: ClusterCalls, nodes: ClusterNodes) -> str:
    """Each node of the cluster is one of Kubernetes, and there is no other one."""
    found = [find_addresses(node) for node in await calls.objects("/api/v1/nodes")]
    missing = [address for address in nodes.all if not any(address in one for one in found)]
    if missing:
        return f"can't find expected node with IPs {_list(missing)}"
    others = [" ".join(sorted(one)) for one in found if not one & set(nodes.all)]
    return f"unexpected nodes with IPs {_list(others)}" if others else ""


async def check_static_pods(calls: ClusterCalls, nodes: ClusterNodes) -> str:
    """The kubelets of control plane nodes report the three static pods, each ready."""
    for node in nodes.control_plane:
        statuses = {
            one.metadata.id: parse_spec(StaticPodStatusSpec, one)
            for one in await calls.resources(node, kinds.STATIC_POD_STATUS)
        }
        for component in COMPONENTS:
            found = [one for name, one in statuses.items() if name.startswith(f"kube-system/{component}-")]
            if not found:
                return f"{node}: missing static pods on node: {component}"
            if not all(is_ready(to_plain(one.pod_status)) for one in found):
                return f"{node}: static pod {component} is not ready"
    return ""


async def check_components(calls: ClusterCalls, nodes: ClusterNodes) -> str:
    """The API shows a ready pod of every component on each control plane node."""
    for component in COMPONENTS:
        pods = await calls.objects(f"{SYSTEM_PODS}{quote('k8s-app=' + component)}")
        hosts = {pod["status"].get("hostIP") for pod in pods}
        missing = [node for node in nodes.control_plane if node not in hosts]
        if missing:
            return (
                f"expected number of pods for {component} to be {len(nodes.control_plane)}, got {len(pods)}"
            )
        if problem := find_unready_pods(pods):
            return problem
    return ""


async def check_nodes_ready(calls: ClusterCalls, nodes: ClusterNodes) -> str:
    """Every node is Ready."""
    del nodes
    found = await calls.objects("/api/v1/nodes")
    waiting = [node["metadata"]["name"] for node in found if not is_ready(node["status"])]
    return f"some nodes are not ready: {_list(waiting)}" if waiting else ""


async def check_nodes_schedulable(calls: ClusterCalls, nodes: ClusterNodes) -> str:
    """No node is cordoned."""
    del nodes
    found = await calls.objects("/api/v1/nodes")
    cordoned = [node["metadata"]["name"] for node in found if node["spec"].get("unschedulable")]
    return f"some nodes are not schedulable: {_list(cordoned)}" if cordoned else ""


def ready_pods(selector: str, workload: str) -> Condition:
    """The pods of a workload are ready; skipped where the cluster is configured without it."""

    async def condition(calls: ClusterCalls, nodes: ClusterNodes) -> str:
        del nodes
        kind, _, name = workload.partition("/")
        query = f"?fieldSelector={quote('metadata.name=' + name)}"
        if not await calls.objects(f"/apis/apps/v1/namespaces/kube-system/{kind}{query}"):
            return SKIPPED
        found = await calls.objects(f"{SYSTEM_PODS}{quote(selector)}")
        # Pods that have ended with their node stay when others have taken their place.
        pods = [pod for pod in found if pod["status"].get("phase") not in ("Failed", "Succeeded")]
        if not pods:
            return f'no pods found for namespace "kube-system" and label selector "{selector}"'
        return find_unready_pods(pods)

    return condition


def find_unready_pods(pods: Sequence[Object]) -> str:
    """Those that are not ready, if any."""
    waiting = [pod["metadata"]["name"] for pod in pods if not is_ready(pod["status"])]
    return f"some pods are not ready: {_list(waiting)}" if waiting else ""


def find_addresses(node: Object) -> set[str]:
    """A node's addresses in the cluster."""
    addresses = node["status"].get("addresses", ())
    return {one["address"] for one in addresses if one["type"] == "InternalIP"}


def _list(names: Sequence[str]) -> str:
    return "[" + " ".join(f'"{name}"' for name in names) + "]"


CONDITIONS: dict[str, Condition] = {
    name: of_kubernetes(condition)
    for name, condition in (
        ("all k8s nodes to report", check_nodes_report),
        ("all control plane static pods to be running", check_static_pods),
        ("all control plane components to be ready", check_components),
        ("all k8s nodes to report ready", check_nodes_ready),
        ("kube-proxy to report ready", ready_pods("k8s-app=kube-proxy", "daemonsets/kube-proxy")),
        ("coredns to report ready", ready_pods("k8s-app=kube-dns", "deployments/coredns")),
        ("all k8s nodes to report schedulable", check_nodes_schedulable),
    )
}
"""In the order in which they are waited for."""
