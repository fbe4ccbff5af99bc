"""Clusters whose nodes, pods and services have addresses of IPv4 and IPv6, or of IPv6 alone.

Their configs are what people write for that. Each node has a static address of IPv6 beside the one of IPv4
that its platform gives it, at which the tests reach it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest
from tests.conformance.test_selection import SELECTION
from tests.harness.e2e import CONFORMANCE, PASSED, add_images, count, make_focus, run_specs, strip_tags
from tests.harness.kubernetes import Kubernetes, link_images, running_kubernetes
from tests.kubernetes.objects import make_pod

from talos.config import contract
from talos.config.change.patch import parse_patch
from talos.config.contract import Contract
from talos.provision.configs import ConfigOptions

PROCESSES = 6
MINUTES = 30
DUAL = "Feature:IPv6DualStack"
"""The label of the specs that need both families; those of SCTP need a host whose kernel has it."""
NETWORK = "[sig-network]"
OUTSIDE = "gateway.example.org"
"""A name that only the nodes' resolvers have, which the cluster's DNS server queries."""

NODE = f"""\
apiVersion: v1alpha1
kind: LinkConfig
name: eth0
addresses: [{{{{address: "fd00:5::{{number}}/64"}}}}]
routes: [{{{{gateway: "fd00:5::1"}}}}]
---
apiVersion: v1alpha1
kind: StaticHostConfig
name: fd00:5::1
hostnames: [{OUTSIDE}]
"""
BOTH = """\
machine:
  kubelet: {nodeIP: {validSubnets: [10.0.0.0/8, "fd00:5::/64"]}}
cluster:
  allowSchedulingOnControlPlanes: true
  network:
    podSubnets: [10.244.0.0/16, "fd00:244::/56"]
    serviceSubnets: [10.96.0.0/12, "fd00:96::/112"]
"""
ETCD_IPV4 = "cluster: {etcd: {advertisedSubnets: [10.0.0.0/8]}}"
IPV6 = """\
apiVersion: v1alpha1
kind: KubeNetworkConfig
podSubnets: ["fd00:244::/56"]
serviceSubnets: ["fd00:96::/112"]
---
apiVersion: v1alpha1
kind: KubeNodeConfig
nodeIP: {validSubnets: ["fd00:5::/64"]}
"""
ETCD_IPV6 = """\
cluster: {etcd: {advertisedSubnets: ["fd00:5::/64"]}}
---
apiVersion: v1alpha1
kind: KubeNodeConfig
taints: {node-role.kubernetes.io/control-plane: {$patch: delete}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """A cluster's families of addresses, its configs, and the specs that it is for."""

    versions: Sequence[int]
    layout: Contract
    patch: str
    control_plane: str
    labels: str
    focus: Sequence[str]


CLUSTERS = {
    "both": Families(
        versions=(4, 6),
        layout=contract.FORWARD_KUBE_DNS,
        patch=BOTH,
        control_plane=ETCD_IPV4,
        labels=f"({DUAL} || {CONFORMANCE}) && !Feature:SCTPConnectivity",
        focus=[DUAL],
    ),
    "IPv6": Families(
        versions=(6,),
        layout=contract.CURRENT,
        patch=IPV6,
        control_plane=ETCD_IPV6,
        labels=CONFORMANCE,
        focus=[],
    ),
}


@pytest.fixture(scope="module", params=CLUSTERS)
def families(request: pytest.FixtureRequest) -> Families:
    return CLUSTERS[request.param]


@pytest.fixture(scope="module")
def kubernetes(families: Families, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder = tmp_path_factory.mktemp("clusters")
    images = link_images(folder)
    add_images(images)
    control_plane, worker = (parse_patch(NODE.format(number=number)) for number in (2, 3))
    configs = ConfigOptions(
        contract=families.layout,
        patches=[parse_patch(families.patch)],
        control_plane_patches=[control_plane, parse_patch(families.control_plane)],
        worker_patches=[worker],
    )
    with running_kubernetes(folder, controlplanes=1, workers=1, images=images, configs=configs) as running:
        yield running


def test_nodes_and_pods_have_addresses_of_each_family(families: Families, kubernetes: Kubernetes) -> None:
    for node in kubernetes.get("nodes"):
        found = [one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP"]
        assert [ip_address(address).version for address in found] == list(families.versions)
    for pod in kubernetes.get("pods", "-n", "kube-system"):
        found = [one["ip"] for one in pod["status"]["podIPs"]]
        assert [ip_address(address).version for address in found] == list(families.versions)


@pytest.mark.parametrize("policy", ["ClusterFirst", "Default"])
def test_pods_resolve_names_by_their_nodes(kubernetes: Kubernetes, policy: str) -> None:
    name = f"names-{policy.lower()}"
    pod = make_pod(name, f"nslookup -type=aaaa {OUTSIDE}")
    pod["spec"]["dnsPolicy"] = policy
    kubernetes.apply(pod)
    kubernetes.wait_for(f"pod/{name}", "jsonpath={.status.phase}=Succeeded")


def test_specs_of_networks_pass(families: Families, kubernetes: Kubernetes, tmp_path: Path) -> None:
    selection = SELECTION.read_text(encoding="utf-8").splitlines()
    names = [strip_tags(name) for name in selection if name.startswith(NETWORK)]
    specs = run_specs(
        kubernetes,
        tmp_path,
        labels=families.labels,
        focus=[*map(make_focus, names), *families.focus],
        processes=PROCESSES,
        minutes=MINUTES,
    )
    print(f"\n{families.versions}: {count(specs)}")  # noqa: T201
    assert set(names) <= {spec.name for spec in specs}
    bad = [f"{spec.name}: {spec.message}" for spec in specs if spec.state != PASSED]
    assert not bad, f"{count(specs)}\n" + "\n".join(bad)
