"""A network of the user's own, by the manifest of its project; the cluster begins with none."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes, has_ended, running_kubernetes
from tests.kubernetes.objects import SERVE_NAME, make_container, make_deployment, make_service
from tests.kubernetes.workloads.manifests import link_workloads, read_manifest

from talos.config import contract
from talos.config.change.patch import parse_patch
from talos.provision.configs import ConfigOptions

pytestmark = pytest.mark.soak

PLUGIN = "registry.example.org/flannel-cni-plugin:v0.9.1"
CONFIGURATION = ("/etc/kube-flannel/cni-conf.json", "/etc/cni/net.d/10-flannel.conflist")
WITHOUT_NETWORK = "apiVersion: v1alpha1\nkind: KubeFlannelCNIConfig\n$patch: delete\n"
REBOOT = 240.0  # seconds


def make_network() -> list[dict[str, Any]]:
    """flannel as its project publishes it, with our images, and routes between nodes in place of vxlan."""
    found = read_manifest("kube-flannel")
    objects = {one["kind"]: one for one in found}
    data: dict[str, str] = objects["ConfigMap"]["data"]
    network = json.loads(data["net-conf.json"]) | {"EnableNFTables": True, "Backend": {"Type": "host-gw"}}
    data["net-conf.json"] = json.dumps(network)
    pod: dict[str, Any] = objects["DaemonSet"]["spec"]["template"]["spec"]
    plugin, configuration = pod["initContainers"]
    plugin["image"] = PLUGIN
    configuration |= {"image": contract.FLANNEL_IMAGE, "command": ["cp", "-f"], "args": [*CONFIGURATION]}
    pod["containers"][0]["image"] = contract.FLANNEL_IMAGE
    return found


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder: Path = tmp_path_factory.mktemp("clusters")
    images = link_workloads(folder)
    manifest = {
        "apiVersion": "v1alpha1",
        "kind": "KubeInlineManifestConfig",
        "name": "network",
        "manifest": yaml.safe_dump_all(make_network()),
    }
    configs = ConfigOptions(
        patches=[parse_patch(WITHOUT_NETWORK)],
        control_plane_patches=[parse_patch(yaml.safe_dump(manifest))],
    )
    with running_kubernetes(folder, controlplanes=1, workers=1, images=images, configs=configs) as kubernetes:
        yield kubernetes


def check_pods_and_services(kubernetes: Kubernetes) -> None:
    """Assert that a pod of each node reaches all pods, and all of them by their service's name."""
    # One that has ended with its node stays beside the one in its place.
    pods = [pod for pod in kubernetes.get("pods", "--selector", "app=web") if not has_ended(pod)]
    assert {pod["spec"]["nodeName"] for pod in pods} == {node.name for node in kubernetes.cluster.nodes}
    names = {pod["metadata"]["name"] for pod in pods}
    urls = [f"http://{pod['status']['podIP']}:8080/" for pod in pods]
    for client in sorted(names):
        fetch = ("exec", client, "--", "wget", "-q", "-T", "5", "-O", "-")
        assert {kubernetes.kubectl(*fetch, url).stdout.strip() for url in urls} == names
        named = kubernetes.kubectl(*fetch, "http://web.default.svc.cluster.local/").stdout.strip()
        assert named in names


def test_it_carries_packets_also_after_a_restart_of_a_node(kubernetes: Kubernetes) -> None:
    assert [node["spec"]["podCIDR"] for node in kubernetes.get("nodes")]
    assert not kubernetes.get(
        "daemonsets", "--namespace", "kube-system", "--selector", "k8s-app=kube-flannel"
    )
    deployment = make_deployment("web", 2, make_container(SERVE_NAME))
    spread = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    deployment["spec"]["template"]["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [spread]}
    }
    kubernetes.apply(deployment, make_service("web", [{"port": 80, "targetPort": 8080}]))
    kubernetes.roll_out("web")
    eventually("pods reach each other", lambda: check_pods_and_services(kubernetes))
    worker = kubernetes.cluster.nodes[1]
    argv = ("-n", str(worker.address), "reboot", "--wait", "--timeout", f"{REBOOT:.0f}s")
    kubernetes.cluster.talosctl(*argv, seconds=REBOOT)
    kubernetes.wait_until_ready()
    kubernetes.roll_out("web")
    eventually("pods reach each other again", lambda: check_pods_and_services(kubernetes), seconds=REBOOT)


def test_a_plugin_of_the_runtime_learns_the_addresses_of_pods(kubernetes: Kubernetes) -> None:
    """kube-network-policies by its project's manifest: containerd shows it pods before they start."""
    objects = {one["kind"]: one for one in read_manifest("kube-network-policies")}
    daemon = objects["DaemonSet"]
    (container,) = daemon["spec"]["template"]["spec"]["containers"]
    container["image"] = contract.KUBE_NETWORK_POLICIES_IMAGE
    kubernetes.apply(*objects.values())
    name = daemon["metadata"]["name"]
    kubernetes.roll_out(name, kind="daemonset", namespace="kube-system")

    def check() -> None:
        log = kubernetes.kubectl("logs", "-n", "kube-system", "-l", f"app={name}", "--tail", "-1").stdout
        assert log.count("Synchronized state with the runtime") == len(kubernetes.cluster.nodes), log

    eventually("it has the pods of each node", check)
