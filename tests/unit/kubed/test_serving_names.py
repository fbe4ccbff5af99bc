"""A node gets a serving certificate for nothing that it merely claims."""

import base64
from ipaddress import ip_address
from typing import Any

import pytest
import trio
import trio.testing
import yaml
from tests.unit.kubernetes.twin import Twin

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.definitions.k8s_pb2 import NodeIPSpec, NodenameSpec, StaticPodSpec
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.static_pods import API_SERVER
from talos.kubed.admin import AdminAccess
from talos.kubed.controllers import serving_certificates
from talos.kubed.controllers.serving_certificates import ServingCertificatesController
from talos.kubed.serving_names import find_names, make_reserved, read_members, read_nodes
from talos.pki.csr import make_csr
from talos.pki.keys import KeyType, make_key
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

RESERVED = make_reserved(
    ["kubernetes.default.svc", "api.example.org"],
    ["10.0.0.1", "10.0.0.100", "not an address"],
    ["10.244.0.0/16", "10.96.0.0/12", "fd00:10:96::/112"],
)
KEY = make_key(KeyType.P256)


def member(node: str, *addresses: str, id_: str = "") -> AffiliateSpec:
    ips = [NetIP(ip=ip_address(one).packed) for one in addresses]
    return AffiliateSpec(node_id=id_ or f"id of {node}", nodename=node, addresses=ips)


def node(name: str, *addresses: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"addresses": [{"address": one} for one in addresses]}}


def test_a_node_is_called_by_its_name_and_by_its_own_addresses() -> None:
    claims = read_members([member("one", "10.0.0.2", "fd00::2"), member("two", "10.0.0.3")])
    found = find_names("one", claims, RESERVED)
    assert (found.dns_names, found.ips) == ({"one"}, {"10.0.0.2", "fd00::2"})
    assert not find_names("three", claims, RESERVED).dns_names


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("10.0.0.1", "it is the cluster's"),  # its endpoint
        ("10.0.0.100", "it is the cluster's"),  # a virtual one
        ("10.96.0.1", "it is in 10.96.0.0/12, which is of pods or services"),
        ("10.244.3.7", "it is in 10.244.0.0/16, which is of pods or services"),
        ("fd00:10:96::1", "it is in fd00:10:96::/112, which is of pods or services"),
        ("127.0.0.1", "it is no address of one node"),
        ("::1", "it is no address of one node"),
        ("0.0.0.0", "it is no address of one node"),
        ("10.0.0.3", "two has it, too"),  # another member
        ("10.0.0.4", "three has it, too"),  # an object, whose member was withdrawn
        ("10.0.0.5", "nameless has it, too"),  # a member without a name
    ],
)
def test_what_is_another_nodes_or_the_clusters_is_not_the_nodes(address: str, reason: str) -> None:
    claims = [
        *read_members([member("one", "10.0.0.2", address), member("two", "10.0.0.3")]),
        *read_members([member("", "10.0.0.5", id_="nameless")]),
        *read_nodes([node("three", "three", "10.0.0.4"), node("one", "one", "10.0.0.2", address)]),
    ]
    found = find_names("one", claims, RESERVED)
    assert found.ips == {"10.0.0.2"}
    assert found.reasons == {address: reason}


@pytest.mark.parametrize("name", ["kubernetes.default.svc", "api.example.org"])
def test_a_node_that_is_called_as_the_api_server_is_gets_no_name(name: str) -> None:
    found = find_names(name, read_members([member(name, "10.0.0.2")]), RESERVED)
    assert found.dns_names == set()


def test_two_members_of_one_name_are_no_node() -> None:
    """A member of another's name could take its claims away, or give it more."""
    pretended = [member("two", id_="0"), member("two", "10.0.0.3"), member("one", "10.0.0.3")]
    claims = read_members(pretended)
    assert find_names("two", claims, RESERVED).ips == set()
    assert find_names("one", claims, RESERVED).reasons == {"10.0.0.3": "two has it, too"}


def test_without_discovery_objects_count() -> None:
    claims = read_nodes([node("one", "one", "10.0.0.2"), node("two", "other", "10.0.0.2", "10.0.0.3")])
    assert find_names("one", claims, RESERVED).ips == set()
    found = find_names("two", claims, RESERVED)
    assert (found.dns_names, found.ips) == ({"two"}, {"10.0.0.3"})


CONFIG = {
    "version": "v1alpha1",
    "machine": {"type": "controlplane", "token": "x"},
    "cluster": {
        "controlPlane": {"endpoint": "https://10.0.0.2:6443"},
        "network": {"podSubnets": ["10.244.0.0/16"], "serviceSubnets": ["10.96.0.0/12"]},
    },
}
VIRTUAL = {"apiVersion": "v1alpha1", "kind": "Layer2VIPConfig", "name": "10.0.0.100", "link": "eth0"}


def make_request(name: str, *ips: str, dns_names: tuple[str, ...] = ()) -> dict[str, Any]:
    pem = make_csr(
        KEY,
        common_name=f"system:node:{name}",
        organizations=["system:nodes"],
        dns_names=[name, *dns_names],
        ips=list(ips),
    )
    return {
        "metadata": {"name": f"csr-{name}-{len(ips)}-{len(dns_names)}-{'-'.join(ips)}"},
        "spec": {
            "signerName": "kubernetes.io/kubelet-serving",
            "username": f"system:node:{name}",
            "groups": ["system:nodes"],
            "usages": ["digital signature", "server auth"],
            "request": base64.b64encode(pem).decode(),
        },
        "status": {},
    }


async def decide(monkeypatch: pytest.MonkeyPatch, *requests: dict[str, Any]) -> set[str]:
    """Those of the requests that the control plane node cp, whose address is the endpoint, approves."""
    twin, state = Twin(), MemoryState()
    approved: set[str] = set()
    nodes = [node("cp", "cp", "10.0.0.2"), node("cp-2", "cp-2", "10.0.0.3"), node("w", "w", "10.0.0.9")]
    twin.objects["/api/v1/nodes"] = {"items": nodes}

    async def approve(_client: object, request: dict[str, Any]) -> None:
        approved.add(request["metadata"]["name"])

    async def follow(*args: Any, **_options: Any) -> None:
        for one in requests:
            await args[3]("ADDED", one)
        await trio.sleep_forever()

    def connect(_access: AdminAccess, _root: KubernetesRootSpec) -> Twin:
        return twin

    monkeypatch.setattr(serving_certificates, "approve", approve)
    monkeypatch.setattr(serving_certificates, "keep_following", follow)
    monkeypatch.setattr(AdminAccess, "connect", connect)
    root = KubernetesRootSpec(dns_domain="cluster.local", cert_sa_ns=["10.0.0.3", "cp-2"])
    root.endpoint.full_path = "https://10.0.0.2:6443"
    root.api_server_ips.append(NetIP(ip=ip_address("10.96.0.1").packed))
    text = yaml.safe_dump_all([CONFIG, VIRTUAL]).encode()
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text))
    await put(state, *ids.NODENAME, NodenameSpec(nodename="cp"))
    await put(state, *ids.NODE_IP, NodeIPSpec(addresses=[NetIP(ip=ip_address("10.0.0.2").packed)]))
    claimed = ("10.0.0.9", "10.0.0.2", "10.0.0.3", "10.0.0.100", "10.96.0.1", "10.244.1.1")
    for one in (member("cp", "10.0.0.2"), member("w", *claimed)):
        one.hostname = "kubernetes.default.svc"
        await put(state, kinds.AFFILIATE, one.node_id, one)
    await put(state, kinds.KUBERNETES_ROOT_SECRET, ids.KUBERNETES_ROOT_SECRET[1], root)
    await put(state, kinds.STATIC_POD, API_SERVER, StaticPodSpec())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [ServingCertificatesController(Log(write=lambda _: None))])
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()
    return {one["metadata"]["name"] for one in requests if one["metadata"]["name"] in approved}


async def test_a_worker_gets_no_certificate_for_the_api_servers_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = [make_request("w", "10.0.0.9"), make_request("cp", "10.0.0.2")]
    claimed = ("10.0.0.2", "10.0.0.3", "10.0.0.100", "10.96.0.1", "10.244.1.1")
    bad = [make_request("w", "10.0.0.9", one) for one in claimed]
    bad += [make_request("w", "10.0.0.9", dns_names=("kubernetes.default.svc",))]
    bad += [make_request("cp", "10.0.0.2", "10.0.0.100")]
    approved = await decide(monkeypatch, *good, *bad)
    assert approved == {one["metadata"]["name"] for one in good}
