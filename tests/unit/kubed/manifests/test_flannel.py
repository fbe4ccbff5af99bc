"""flannel's manifest follows its document, or the main one, and leaves with another network."""

import json
from typing import Any

import pytest

from talos.config.read.loader import load
from talos.kubed.controllers.manifests import make_bootstrap_config
from talos.kubed.manifests.flannel import make_flannel

HEAD = "apiVersion: v1alpha1\nkind: "


def make_objects(text: str) -> dict[str, dict[str, Any]]:
    """The manifest's objects by their kind."""
    return {one["kind"]: one for one in make_flannel(make_bootstrap_config(load(text)))}


def make_parts(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The container of flannel, and the settings of its network."""
    objects = make_objects(text)
    (container,) = objects["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    return container, json.loads(objects["ConfigMap"]["data"]["net-conf.json"])


def test_what_its_document_sets_is_in_the_manifest() -> None:
    container, network = make_parts(
        f"{HEAD}KubeFlannelCNIConfig\nbackendType: wireguard\nbackendPort: 51821\nbackendMTU: 1380\n"
        "backendExtraConfig: {Mode: separate}\nextraArgs: [--iface=eth1]\n"
        "resources: {requests: {cpu: 20m}, limits: {memory: 64Mi}}\n"
    )
    assert network["Backend"] == {"Type": "wireguard", "Port": 51821, "MTU": 1380, "Mode": "separate"}
    assert container["command"][-1] == "--iface=eth1"
    assert container["resources"] == {"requests": {"cpu": "20m"}, "limits": {"memory": "64Mi"}}


def test_arguments_in_the_main_document_are_flannels() -> None:
    container, network = make_parts(
        "cluster: {network: {cni: {name: flannel, flannel: {extraArgs: [--iface-can-reach=10.0.0.1]}}}}\n"
    )
    assert container["command"][-1] == "--iface-can-reach=10.0.0.1"
    assert network["Backend"] == {"Type": "vxlan", "Port": 4789}


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("cluster: {}\n", True),
        ("cluster: {network: {cni: {name: none}}}\n", False),
        ("cluster: {network: {cni: {name: custom, urls: ['https://a/b.yaml']}}}\n", False),
        (f"{HEAD}KubeNetworkConfig\npodSubnets: [10.244.0.0/16]\n", False),
    ],
)
def test_another_network_is_left_to_the_user(text: str, is_there: bool) -> None:
    assert make_bootstrap_config(load(text)).flannel_enabled is is_there


@pytest.mark.parametrize(
    "text",
    [
        "cluster: {network: {cni: {name: flannel, flannel: {kubeNetworkPoliciesEnabled: true}}}}\n",
        f"{HEAD}KubeFlannelCNIConfig\nbackendType: vxlan\nkubeNetworkPoliciesEnabled: true\n",
    ],
    ids=["main", "document"],
)
def test_network_policies_are_enforced_by_a_container_beside_it(text: str) -> None:
    objects = make_objects(f"{text}---\n{HEAD}KubePrismConfig\nport: 7446\n")
    flannel, enforcer = objects["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert (flannel["name"], enforcer["name"]) == ("kube-flannel", "kube-network-policies")
    assert enforcer["image"] == "registry.k8s.io/networking/kube-network-policies:v1.1.1"
    assert enforcer["command"] == ["/bin/netpol", "--hostname-override=$(MY_NODE_NAME)", "--v=2"]
    assert enforcer["securityContext"] == {"privileged": True}
    name, *server = enforcer["env"]
    assert name == {"name": "MY_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    assert [one["value"] for one in server] == ["127.0.0.1", "7446"]
    allowed = {kind for rule in objects["ClusterRole"]["rules"] for kind in rule["resources"]}
    policies = {"networkpolicies", "adminnetworkpolicies", "baselineadminnetworkpolicies"}
    assert {"namespaces", "pods"} | policies <= allowed


@pytest.mark.parametrize("value", ["false", "null"])
def test_it_is_alone_without_network_policies(value: str) -> None:
    text = f"{HEAD}KubeFlannelCNIConfig\nbackendType: vxlan\nkubeNetworkPoliciesEnabled: {value}\n"
    make_parts(text)
    assert not any(
        "networkpolicies" in rule["resources"] for rule in make_objects(text)["ClusterRole"]["rules"]
    )


def test_it_may_change_the_nodes_network_and_nothing_else() -> None:
    container, _ = make_parts("cluster: {}\n")
    assert container["securityContext"] == {
        "privileged": False,
        "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]},
    }
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "50Mi"}}
