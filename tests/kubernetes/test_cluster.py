"""A cluster is a Kubernetes cluster: its nodes are ready, pods of all nodes reach each other by name."""

import base64
from functools import partial
from urllib.request import urlopen

import yaml
from tests.harness.cluster import REPOSITORY, eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import (
    READY_PROBE,
    SERVE_NAME,
    make_container,
    make_deployment,
    make_head,
    make_pod,
    make_service,
)


def test_nodes_have_their_roles_and_versions(kubernetes: Kubernetes) -> None:
    nodes = {node["metadata"]["name"]: node for node in kubernetes.get("nodes")}
    for info in kubernetes.cluster.nodes:
        node = nodes[info.name]
        roles = {label for label in node["metadata"]["labels"] if label.startswith("node-role")}
        taints = {taint["key"] for taint in node["spec"].get("taints", [])}
        control_plane = "node-role.kubernetes.io/control-plane"
        expected = {control_plane} if "controlplane" in info.name else set[str]()
        assert (roles, taints) == (expected, expected)
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.37.1"
        addresses = {one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP"}
        assert addresses == {str(info.address)}


def test_the_control_plane_came_up_without_a_restart(kubernetes: Kubernetes) -> None:
    pods = kubernetes.get("pods", "--namespace", "kube-system", "--selector", "tier=control-plane")
    assert {pod["metadata"]["labels"]["k8s-app"] for pod in pods} == {
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    }
    for pod in pods:
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0, pod["metadata"]["name"]
        assert pod["spec"]["securityContext"]["runAsNonRoot"]


def test_the_state_of_the_node_is_a_resource(kubernetes: Kubernetes) -> None:
    name = kubernetes.cluster.nodes[0].name

    def check() -> None:
        (status,) = kubernetes.cluster.resource("nodestatus", name)
        assert "'nodeReady': True" in str(status["spec"])

    eventually("the node is shown as ready", check)
    (applied,) = kubernetes.cluster.resource("manifeststatus")
    assert "11-core-dns" in str(applied["spec"])


def test_a_kubeconfig_is_of_a_new_administrator(kubernetes: Kubernetes) -> None:
    document = yaml.safe_load(kubernetes.kubeconfig.read_text())
    assert kubernetes.kubeconfig.stat().st_mode & 0o777 == 0o600
    certificate = base64.b64decode(document["users"][0]["user"]["client-certificate-data"])
    assert certificate.startswith(b"-----BEGIN CERTIFICATE-----")
    answer = kubernetes.kubectl("auth", "can-i", "*", "*", "--all-namespaces")
    assert answer.stdout.strip() == "yes"


def test_a_service_is_reached_by_name_on_all_pods_of_both_nodes(kubernetes: Kubernetes) -> None:
    kubernetes.apply(
        # Without a probe a pod is ready before its server listens.
        make_deployment("web", 3, make_container(SERVE_NAME, readinessProbe=READY_PROBE)),
        make_service("web", [{"port": 80, "targetPort": 8080}]),
    )
    kubernetes.roll_out("web")
    pods = kubernetes.get("pods", "--selector", "app=web")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2, "the pods are on one node"
    names = {pod["metadata"]["name"] for pod in pods}
    client = pods[0]["metadata"]["name"]

    def fetch(url: str) -> str:
        return kubernetes.kubectl(
            "exec", client, "--", "wget", "-q", "-T", "5", "-O", "-", url
        ).stdout.strip()

    # Each one at its own address: also from one node to the other, over vxlan.
    for pod in pods:
        assert fetch(f"http://{pod['status']['podIP']}:8080/") == pod["metadata"]["name"]
    answered: set[str] = set()

    def check() -> None:
        answered.add(fetch("http://web.default.svc.cluster.local/"))
        assert answered == names

    eventually("every pod has answered for the service", check)
    kubernetes.delete("deployment/web", "service/web")


def test_a_network_policy_is_accepted_and_flannel_enforces_none(kubernetes: Kubernetes) -> None:
    """A pod that no policy lets in answers, as in docs/kubernetes.md."""
    serving, client = ("open", "client")
    for name, node in zip((serving, client), kubernetes.cluster.nodes, strict=True):
        kubernetes.apply(make_pod(name, SERVE_NAME, node=node.name))
    spec = {"podSelector": {"matchLabels": {"app": serving}}, "policyTypes": ["Ingress"]}
    policy = {**make_head("NetworkPolicy", "closed", version="networking.k8s.io/v1"), "spec": spec}
    kubernetes.apply(policy)
    for name in (serving, client):
        kubernetes.wait_for(f"pod/{name}", "condition=Ready")
    (pod,) = kubernetes.get("pod", serving)
    url = f"http://{pod['status']['podIP']}:8080/"

    def check() -> None:
        argv = ("exec", client, "--", "wget", "-q", "-T", "5", "-O", "-", url)
        found = kubernetes.kubectl(*argv, check=False)
        assert found.stdout.strip() == serving, found.stderr

    eventually("the pod answers", check)
    kubernetes.delete("networkpolicy/closed", f"pod/{serving}", f"pod/{client}")


def test_the_page_of_the_first_cluster_is_served_at_every_node(kubernetes: Kubernetes) -> None:
    text = (REPOSITORY / "docs/first-cluster.md").read_text(encoding="utf-8")
    objects = list(yaml.safe_load_all(text.partition("```yaml\n")[2].partition("```")[0]))
    kubernetes.apply(*objects)
    kubernetes.roll_out("web")

    def check(address: str) -> None:
        try:
            with urlopen(f"http://{address}:30080/", timeout=5) as reply:
                assert b"Served by a pod" in reply.read()
        except OSError as error:
            raise AssertionError(str(error)) from None

    for address in kubernetes.cluster.addresses:
        eventually(f"{address} serves the page", partial(check, address), pause=0.2)
    kubernetes.delete("deployment/web", "service/web", "configmap/page", wait=True)


def test_a_kubelet_follows_its_config(kubernetes: Kubernetes) -> None:
    worker = kubernetes.cluster.nodes[1]
    patch = "{apiVersion: v1alpha1, kind: KubeletConfig, config: {maxPods: 42}}"
    kubernetes.cluster.talosctl("-n", str(worker.address), "patch", "machineconfig", "--patch", patch)

    def check() -> None:
        (node,) = kubernetes.get("node", worker.name)
        assert node["status"]["capacity"]["pods"] == "42"

    eventually("the node takes as many pods as its config says", check, pause=0.5)
    eventually("it is ready again", kubernetes.check_nodes, pause=0.5)


def test_a_pod_is_killed_by_its_memory_limit(kubernetes: Kubernetes) -> None:
    fill = "x=0123456789abcdef; while true; do x=$x$x; done"
    kubernetes.apply(make_pod("fill", fill, resources={"limits": {"memory": "32Mi"}}))

    def check() -> None:
        (pod,) = kubernetes.get("pod", "fill")
        state = pod["status"]["containerStatuses"][0]["state"]
        assert state["terminated"]["reason"] == "OOMKilled", state

    def is_killed() -> None:
        try:
            check()
        except KeyError as error:
            raise AssertionError(f"the pod has no {error} yet") from None

    eventually("the pod is killed", is_killed, seconds=120, pause=0.5)
    kubernetes.delete("pod/fill")


def test_sockets_of_pods_are_shown_with_their_names(kubernetes: Kubernetes) -> None:
    cluster = kubernetes.cluster
    listed = cluster.talosctl("netstat", "-l", "-k", "--nodes", ",".join(cluster.addresses)).stdout
    assert any(":53 " in line and "kube-system/coredns-" in line for line in listed.splitlines()), listed
