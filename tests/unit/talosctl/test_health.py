"""``talosctl health --server=false``."""

from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.common.common_pb2 import NetIP
from talos.api.cosi.resource_pb2 import Resource, Spec
from talos.api.cosi.state_pb2 import ListRequest, ListResponse
from talos.api.definitions.cluster_pb2 import MemberSpec
from talos.api.definitions.enums_pb2 import MachineType, RuntimeMachineStage
from talos.api.definitions.runtime_pb2 import DiagnosticSpec, MachineStatusSpec, MachineStatusStatus
from talos.api.machine import machine_pb2 as machine
from talos.talosctl.cli.exit import Exit

SERVICE = "/machine.MachineService/"
CHECK = ("health", "--server=false", "-n", "10.0.0.2", "--wait-timeout", "0s")


def member(address: bytes, kind: MachineType) -> ListResponse:
    spec = MemberSpec(addresses=[NetIP(ip=address)], machine_type=kind)
    return ListResponse(resource=Resource(spec=Spec(proto_spec=spec.SerializeToString())))


class Cluster:
    """A control plane node and a worker behind one fake node, healthy until a test changes that."""

    def __init__(self, node: FakeNode) -> None:
        self.members = [
            member(bytes([10, 0, 0, 2]), MachineType.TYPE_CONTROL_PLANE),
            member(bytes([10, 0, 0, 3]), MachineType.TYPE_WORKER),
        ]
        self.etcd = ["https://10.0.0.2:2380"]
        self.kubelet = ""  # Kubernetes is none of these tests' subjects
        self.diagnostics: list[str] = []
        node.on("/cosi.resource.State/List", ListRequest, self._list, stream=True)
        node.on(SERVICE + "ServiceList", Empty, self._services)
        node.on(SERVICE + "Version", Empty, machine.VersionResponse(messages=[machine.Version()]))
        node.on(SERVICE + "EtcdMemberList", machine.EtcdMemberListRequest, self._etcd)

    def _list(self, request: Any, _metadata: Mapping[str, str]) -> list[ListResponse]:
        if request.type == "Members.cluster.talos.dev":
            return self.members
        specs: list[Message] = [DiagnosticSpec(message=message) for message in self.diagnostics]
        if request.type == "MachineStatuses.runtime.talos.dev":
            stage = RuntimeMachineStage.MACHINE_STAGE_RUNNING
            specs = [MachineStatusSpec(stage=stage, status=MachineStatusStatus(ready=True))]
        return [
            ListResponse(resource=Resource(spec=Spec(proto_spec=spec.SerializeToString()))) for spec in specs
        ]

    def _services(self, _request: Any, _metadata: Mapping[str, str]) -> machine.ServiceListResponse:
        health = machine.ServiceHealth(healthy=True)
        services = [machine.ServiceInfo(id="etcd", state="Running", health=health)]
        if self.kubelet:
            services.append(machine.ServiceInfo(id="kubelet", state=self.kubelet, health=health))
        return machine.ServiceListResponse(messages=[machine.ServiceList(services=services)])

    def _etcd(self, _request: Any, _metadata: Mapping[str, str]) -> machine.EtcdMemberListResponse:
        members = [
            machine.EtcdMember(id=number, hostname="m", peer_urls=[url])
            for number, url in enumerate(self.etcd)
        ]
        return machine.EtcdMemberListResponse(messages=[machine.EtcdMembers(members=members)])


@pytest.fixture
def cluster(node: FakeNode) -> Cluster:
    return Cluster(node)


def test_every_condition_is_reported(talosctl: Client, cluster: Cluster, node: FakeNode) -> None:
    result = talosctl(*CHECK)
    assert result.code == 0, result.err
    lines = result.err.splitlines()
    assert lines[:2] == ["waiting for etcd to be healthy: ...", "waiting for etcd to be healthy: OK"]
    assert "waiting for all nodes to finish boot sequence: OK" in lines
    assert lines[-1] == "waiting for all k8s nodes to report schedulable: SKIP"
    called = [seen[1] for seen in node.seen if seen[0] == SERVICE + "Version"]
    assert sorted(called) == ["10.0.0.2", "10.0.0.3"]


def test_named_nodes_are_called_alone(talosctl: Client, cluster: Cluster, node: FakeNode) -> None:
    assert talosctl(*CHECK, "--control-plane-nodes", "10.0.0.2").code == 0
    assert {seen[1] for seen in node.seen} == {"10.0.0.2"}


@pytest.mark.parametrize(
    ("attribute", "value", "text"),
    [
        ("kubelet", "Waiting", 'kubelet to be healthy: 10.0.0.2: service "kubelet" is Waiting'),
        ("diagnostics", ["address overlap"], "no diagnostics: 10.0.0.2: address overlap"),
        ("etcd", ["https://10.0.0.9:2380"], "(10.0.0.9) is no control plane node"),
        ("etcd", [], "etcd has 0 members for 1 control plane nodes"),
    ],
)
def test_a_condition_that_is_not_met(
    talosctl: Client, cluster: Cluster, attribute: str, value: Any, text: str
) -> None:
    setattr(cluster, attribute, value)
    result = talosctl(*CHECK)
    assert result.code == Exit.TIMED_OUT
    assert text in result.err


def test_a_node_that_knows_no_cluster(talosctl: Client, cluster: Cluster) -> None:
    cluster.members = []
    result = talosctl(*CHECK)
    assert result.code == Exit.FAILED
    assert "has found no control plane node of its cluster" in result.err
