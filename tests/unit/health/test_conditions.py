"""The conditions of a healthy cluster, with nodes of a test's."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import trio
from google.protobuf.message import Message

from talos.api.common.common_pb2 import NetIP
from talos.api.cosi.resource_pb2 import Resource
from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.definitions.enums_pb2 import MachineType, RuntimeMachineStage
from talos.api.definitions.k8s_pb2 import StaticPodStatusSpec
from talos.api.definitions.runtime_pb2 import MachineStatusSpec
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import Code, RpcError
from talos.health import kubernetes as health_kubernetes
from talos.health.calls import ClusterNodes
from talos.health.conditions import CONDITIONS, sort_members, wait_for_health
from talos.health.kubernetes import COMPONENTS
from talos.resource import kinds
from talos.resource.kind import Kind
from talos.resource.objects import to_struct

NODES = ClusterNodes(control_plane=["10.0.0.2", "10.0.0.3"], workers=["10.0.0.4"])


def make_status(*, ready: bool, **more: Any) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": str(ready)}], **more}


class Kubernetes:
    """A healthy one, until a test changes it."""

    def __init__(self) -> None:
        self.nodes = {
            node: {
                "spec": dict[str, Any](),
                "status": make_status(ready=True, addresses=make_addresses(node)),
            }
            for node in NODES.all
        }
        self.static_pods = {node: list(COMPONENTS) for node in NODES.control_plane}
        self.unready = set[str]()
        self.ended = set[str]()
        self.workloads = {"kube-proxy": "kube-proxy", "coredns": "kube-dns"}

    def objects(self, path: str) -> list[dict[str, Any]]:
        path, _, query = path.partition("?")
        selected = query.partition("%3D")[2]
        match path.rpartition("/")[2]:
            case "nodes":
                return [{"metadata": {"name": f"n{name[-1]}"}, **node} for name, node in self.nodes.items()]
            case "pods":
                nodes = NODES.control_plane if selected in COMPONENTS else NODES.all
                ready = selected not in self.unready
                return [
                    {
                        "metadata": {"name": f"{selected}-{node}"},
                        "status": make_status(ready=False, hostIP=node, phase="Failed")
                        if f"{selected}-{node}" in self.ended
                        else make_status(ready=ready, hostIP=node),
                    }
                    for node in nodes
                    if selected in {*COMPONENTS, *self.workloads.values()}
                ]
            case _:
                return [{}] if selected in self.workloads else []


def make_addresses(node: str) -> list[dict[str, str]]:
    return [{"type": "Hostname", "address": "x"}, {"type": "InternalIP", "address": node}]


class Nodes:
    """Healthy nodes without Kubernetes, until a test changes them."""

    def __init__(self) -> None:
        self.etcd = dict.fromkeys(NODES.control_plane, "Running")
        self.members = {node: list(NODES.control_plane) for node in NODES.control_plane}
        self.stage: RuntimeMachineStage = RuntimeMachineStage.MACHINE_STAGE_RUNNING
        self.error: RpcError | None = None
        self.has_kubelet = False
        self.kubernetes = Kubernetes()

    async def unary[R: Message](self, node: str, method: str, request: Message, reply: type[R]) -> R:
        del request
        if self.error:
            raise self.error
        answer: Any = reply()
        match method.rpartition("/")[2]:
            case "ServiceList":
                health = machine.ServiceHealth(healthy=True)
                state = self.etcd.get(node)
                services = [machine.ServiceInfo(id="etcd", state=state, health=health)] if state else []
                if self.has_kubelet:
                    services.append(machine.ServiceInfo(id="kubelet", state="Running", health=health))
                answer.messages.add(services=services)
            case "EtcdMemberList":
                members = [
                    machine.EtcdMember(id=int(one[-1]), hostname=one, peer_urls=[f"https://{one}:2380"])
                    for one in self.members[node]
                ]
                answer.messages.add(members=members)
            case _:
                answer.messages.add()
        return answer

    async def specs[S: Message](self, node: str, kind: Kind[S]) -> Sequence[S]:
        del node
        status: Any = MachineStatusSpec(stage=self.stage)
        return [status] if kind.type == kinds.MACHINE_STATUS.type else []

    async def resources(self, node: str, kind: Kind[Message]) -> Sequence[Resource]:
        assert kind.type == kinds.STATIC_POD_STATUS.type
        found: list[Resource] = []
        for name in self.kubernetes.static_pods[node]:
            resource = Resource()
            resource.metadata.id = f"kube-system/{name}-{node}"
            spec = StaticPodStatusSpec(pod_status=to_struct(make_status(ready=True)))
            resource.spec.proto_spec = spec.SerializeToString()
            found.append(resource)
        return found

    async def objects(self, path: str) -> Sequence[Mapping[str, Any]]:
        return self.kubernetes.objects(path)


async def check(nodes: Nodes) -> list[str]:
    lines: list[str] = []

    async def report(text: str) -> None:
        lines.append(text)

    await wait_for_health(nodes, NODES, seconds=0, report=report, sleep=trio.sleep)
    return lines


async def test_every_condition_is_reported_in_order() -> None:
    lines = await check(Nodes())
    results = dict.fromkeys(("kubelet to be healthy", *health_kubernetes.CONDITIONS), "SKIP")
    assert lines == [
        f"waiting for {name}: {text}" for name in CONDITIONS for text in ("...", results.get(name, "OK"))
    ]


def one_waits(nodes: Nodes) -> None:
    nodes.etcd["10.0.0.3"] = "Waiting"


def one_has_none(nodes: Nodes) -> None:
    del nodes.etcd["10.0.0.2"]


def one_lists_less(nodes: Nodes) -> None:
    nodes.members["10.0.0.3"].pop()


def a_stranger_is_listed(nodes: Nodes) -> None:
    for members in nodes.members.values():
        members.append("10.0.0.9")


def one_is_missing(nodes: Nodes) -> None:
    for members in nodes.members.values():
        members.pop()


def they_boot(nodes: Nodes) -> None:
    nodes.stage = RuntimeMachineStage.MACHINE_STAGE_BOOTING


def they_are_down(nodes: Nodes) -> None:
    nodes.error = RpcError(Code.UNAVAILABLE, "no route")


def they_fail_without_a_text(nodes: Nodes) -> None:
    nodes.error = RpcError(Code.UNAVAILABLE, "")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (one_waits, '10.0.0.3: service "etcd" is Waiting'),
        (one_has_none, '10.0.0.2: service "etcd" is not there'),
        (one_lists_less, "10.0.0.3 and 10.0.0.2 name different members"),
        (a_stranger_is_listed, 'the member "10.0.0.9" (10.0.0.9) is no control plane node'),
        (one_is_missing, "etcd has 1 members for 2 control plane nodes"),
        (they_boot, "10.0.0.2: the boot has not ended"),
        (they_are_down, "no route"),
        (they_fail_without_a_text, "UNAVAILABLE"),
    ],
)
async def test_the_first_condition_that_is_not_met_is_named(change: Any, text: str) -> None:
    nodes = Nodes()
    change(nodes)
    with pytest.raises(RpcError) as caught:
        await check(nodes)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    assert caught.value.message.endswith(text)


async def test_a_refused_role_is_not_waited_for() -> None:
    nodes = Nodes()
    nodes.error = RpcError(Code.PERMISSION_DENIED, "not authorized")
    with pytest.raises(RpcError, match="not authorized"):
        await check(nodes)


def test_members_are_sorted_by_kind() -> None:
    members = [
        MemberSpec(addresses=[NetIP(ip=bytes([10, 0, 0, last]))], machine_type=kind)
        for last, kind in ((4, MachineType.TYPE_WORKER), (2, MachineType.TYPE_CONTROL_PLANE))
    ]
    found = sort_members([*members, MemberSpec(machine_type=MachineType.TYPE_WORKER)])
    assert (found.control_plane, found.workers) == (["10.0.0.2"], ["10.0.0.4"])


async def test_kubernetes_is_checked_where_it_is() -> None:
    nodes = Nodes()
    nodes.has_kubelet = True
    lines = await check(nodes)
    met = [line.removeprefix("waiting for ").removesuffix(": OK") for line in lines if line.endswith(": OK")]
    assert met == [
        "etcd to be healthy",
        "etcd members to be consistent across nodes",
        "etcd members to be control plane nodes",
        "apid to be ready",
        "no diagnostics",
        "kubelet to be healthy",
        "all nodes to finish boot sequence",
        "all k8s nodes to report",
        "all control plane static pods to be running",
        "all control plane components to be ready",
        "all k8s nodes to report ready",
        "kube-proxy to report ready",
        "coredns to report ready",
        "all k8s nodes to report schedulable",
    ]


def one_is_not_registered(kubernetes: Kubernetes) -> None:
    del kubernetes.nodes["10.0.0.4"]


def there_is_another(kubernetes: Kubernetes) -> None:
    kubernetes.nodes["10.0.0.7"] = {
        "spec": {},
        "status": make_status(ready=True, addresses=make_addresses("10.0.0.7")),
    }


def a_static_pod_is_missing(kubernetes: Kubernetes) -> None:
    kubernetes.static_pods["10.0.0.3"].remove("kube-scheduler")


def a_component_is_not_ready(kubernetes: Kubernetes) -> None:
    kubernetes.unready.add("kube-controller-manager")


def one_node_is_not_ready(kubernetes: Kubernetes) -> None:
    kubernetes.nodes["10.0.0.4"]["status"]["conditions"] = []


def dns_is_not_ready(kubernetes: Kubernetes) -> None:
    kubernetes.unready.add("kube-dns")


def one_is_cordoned(kubernetes: Kubernetes) -> None:
    kubernetes.nodes["10.0.0.3"]["spec"]["unschedulable"] = True


def all_of_dns_has_ended(kubernetes: Kubernetes) -> None:
    kubernetes.ended.update(f"kube-dns-{node}" for node in NODES.all)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (all_of_dns_has_ended, 'label selector "k8s-app=kube-dns"'),
        (one_is_not_registered, 'can\'t find expected node with IPs ["10.0.0.4"]'),
        (there_is_another, 'unexpected nodes with IPs ["10.0.0.7"]'),
        (a_static_pod_is_missing, "10.0.0.3: missing static pods on node: kube-scheduler"),
        (a_component_is_not_ready, 'some pods are not ready: ["kube-controller-manager-10.0.0.2"'),
        (one_node_is_not_ready, 'some nodes are not ready: ["n4"]'),
        (dns_is_not_ready, 'some pods are not ready: ["kube-dns-10.0.0.2"'),
        (one_is_cordoned, 'some nodes are not schedulable: ["n3"]'),
    ],
)
async def test_what_kubernetes_lacks_is_named(change: Any, text: str) -> None:
    nodes = Nodes()
    nodes.has_kubelet = True
    change(nodes.kubernetes)
    with pytest.raises(RpcError) as caught:
        await check(nodes)
    assert text in caught.value.message


async def test_a_pod_that_ended_with_its_node_is_no_failure() -> None:
    nodes = Nodes()
    nodes.has_kubelet = True
    nodes.kubernetes.ended.add(f"kube-dns-{NODES.all[0]}")
    assert "waiting for coredns to report ready: OK" in await check(nodes)


async def test_a_cluster_without_proxy_and_dns_is_well() -> None:
    nodes = Nodes()
    nodes.has_kubelet = True
    nodes.kubernetes.workloads.clear()
    lines = await check(nodes)
    assert "waiting for kube-proxy to report ready: SKIP" in lines
    assert "waiting for coredns to report ready: SKIP" in lines
