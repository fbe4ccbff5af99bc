"""flannel's manifest follows its document, or the main one, and leaves with another network."""

import json
from typing import Any

import pytest

from talos.config.read.loader import load
from talos.kubed.controllers.manifests import make_bootstrap_config
from talos.kubed.manifests.flannel import make_flannel

HEAD = "apiVersion: v1alpha1\nkind: "


def make_parts(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The container of flannel, and the settings of its network."""
    objects = {one["kind"]: one for one in make_flannel(make_bootstrap_config(load(text)))}
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
