"""A worker goes down: its pods move elsewhere before, and budgets decide when."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes, all_images, running_kubernetes
from tests.kubernetes.objects import make_container, make_head, make_pod_spec

IMAGE = "docker.io/library/busybox:1.37.0"
LABELS = {"app": "guarded"}
CORDONED = "talos.dev/cordoned"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """A cluster of its own: one of its workers does not come back."""
    folder = tmp_path_factory.mktemp("clusters")
    with running_kubernetes(folder, controlplanes=1, workers=2, images=all_images()) as kubernetes:
        yield kubernetes


def make_guarded() -> list[dict[str, Any]]:
    """Two pods, one on each worker, of which both have to run."""
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": LABELS}}
    preferred = [{"weight": 1, "podAffinityTerm": apart}]
    spec = {
        "terminationGracePeriodSeconds": 1,
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        "containers": [{"name": "guarded", "image": IMAGE, "command": ["sleep", "3600"]}],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "guarded"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": spec},
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guarded"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": LABELS}},
    }
    return [deployment, budget]


def check_unschedulable(kubernetes: Kubernetes, name: str, *, wanted: bool) -> None:
    (node,) = kubernetes.get("node", name)
    assert bool(node["spec"].get("unschedulable")) is wanted


def test_only_a_cordon_of_the_nodes_own_is_taken_back(kubernetes: Kubernetes) -> None:
    name = kubernetes.cluster.nodes[2].name
    kubernetes.kubectl("cordon", name)
    # What the node does with its object shows that it has seen the cordon.
    patch = "{apiVersion: v1alpha1, kind: KubeNodeConfig, labels: {rack: r7}, annotations: {seen: 'yes'}}"
    node = str(kubernetes.cluster.nodes[2].address)
    kubernetes.cluster.talosctl("-n", node, "patch", "machineconfig", "--patch", patch)

    def check_marks() -> None:
        (found,) = kubernetes.get("node", name)
        assert found["metadata"]["labels"].get("rack") == "r7"
        assert found["metadata"]["annotations"].get("seen") == "yes"

    eventually("the worker has the labels and annotations of its config", check_marks)
    check_unschedulable(kubernetes, name, wanted=True)
    kubernetes.kubectl("annotate", "node", name, f"{CORDONED}=true")
    uncordoned = partial(check_unschedulable, kubernetes, name, wanted=False)
    eventually("the node takes its own cordon back", uncordoned)


def make_careful(node: str) -> dict[str, Any]:
    """A pod that nothing evicts, with a file on its node to which it writes when it ends, not at once."""
    command = "trap 'sleep 2; echo ended >> /data/words; exit 0' TERM; sleep infinity & wait; wait"
    before = {"exec": {"command": ["sh", "-c", "echo stopping >> /data/words"]}}
    container = make_container(
        command,
        lifecycle={"preStop": before},
        securityContext={"runAsUser": 0},
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    data = {"name": "data", "hostPath": {"path": "/var/lib/careful"}}
    spec = make_pod_spec(container, nodeName=node, volumes=[data])
    return {**make_head("Pod", "careful"), "spec": {**spec, "terminationGracePeriodSeconds": 15}}


def test_a_reboot_lets_pods_end(kubernetes: Kubernetes) -> None:
    """The kubelet ends them, with the time that they request, and reports why."""
    node = kubernetes.cluster.nodes[2]
    address = str(node.address)
    kubernetes.kubectl("label", "namespace", "default", "pod-security.kubernetes.io/enforce=privileged")
    kubernetes.apply(make_careful(node.name))
    kubernetes.wait_for("pod/careful", "condition=Ready")
    kubernetes.cluster.talosctl("-n", address, "reboot", "--wait=false")

    def check_back() -> None:
        now = kubernetes.cluster.nodes[2]
        assert now.pid not in {0, None, node.pid}, "the node has not been restarted"
        services = kubernetes.cluster.services(address)
        assert services.get("kubelet", {}).get("HEALTH") == "OK", services

    eventually("the worker is back", check_back, seconds=120.0)
    words = kubernetes.cluster.talosctl("-n", address, "read", "/var/lib/careful/words").stdout
    assert words.split() == ["stopping", "ended"]
    boot_id = kubernetes.cluster.talosctl("-n", address, "read", "/proc/sys/kernel/random/boot_id").stdout

    def check_boot_id() -> None:
        (found,) = kubernetes.get("node", node.name)
        assert found["status"]["nodeInfo"]["bootID"] == boot_id.strip()

    eventually("Kubernetes sees that it is another boot", check_boot_id)
    (pod,) = kubernetes.get("pod", "careful")
    (reason,) = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert reason["reason"] == "TerminationByKubelet"
    assert reason["message"] == "Pod was terminated in response to imminent node shutdown."
    log = kubernetes.cluster.consoles()[node.name]
    assert "the kubelet does not end its pods" not in log
    assert "has not ended its pods in time" not in log
    kubernetes.delete("pod/careful", wait=True)
    eventually("every node is ready", kubernetes.check_nodes, seconds=120.0)


def test_a_reboot_with_a_drain_is_given_up_when_the_budget_refuses(kubernetes: Kubernetes) -> None:
    node = kubernetes.cluster.nodes[2]
    kubernetes.apply(*make_guarded())
    kubernetes.roll_out("guarded")
    argv = ("-n", str(node.address), "reboot", "--drain", "--drain-timeout", "3s")
    result = kubernetes.cluster.talosctl(*argv, check=False)
    assert result.returncode == 1
    assert f"node {node.name}: is not drained within 3 s: default/guarded-" in result.stderr
    assert "would violate the pod's disruption budget" in result.stderr
    check_unschedulable(kubernetes, node.name, wanted=False)


def test_a_shutdown_waits_for_the_budget_and_then_for_the_pods(kubernetes: Kubernetes) -> None:
    going, staying = kubernetes.cluster.nodes[1:]
    places = {pod["spec"]["nodeName"] for pod in kubernetes.get("pods", "--selector", "app=guarded")}
    assert places == {going.name, staying.name}
    kubernetes.cluster.talosctl("-n", str(going.address), "shutdown", "--wait=false")

    def check_refusal() -> None:
        log = kubernetes.cluster.talosctl("-n", str(going.address), "logs", "kubed").stdout
        assert "would violate the pod's disruption budget" in log

    eventually("the budget keeps the pod where it is", check_refusal)
    (node,) = kubernetes.get("node", going.name)
    assert node["spec"]["unschedulable"]
    assert node["metadata"]["annotations"][CORDONED] == "true"

    def check_shown() -> None:
        (status,) = kubernetes.cluster.resource("nodestatus", going.name, "-n", str(going.address))
        assert "'unschedulable': True" in str(status["spec"])

    eventually("the node shows that it takes no pods", check_shown)
    kubernetes.kubectl("delete", "poddisruptionbudget", "guarded")

    def check_moved() -> None:
        pods = kubernetes.get("pods", "--selector", "app=guarded")
        running = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert [pod["spec"].get("nodeName") for pod in running] == [staying.name] * 2
        assert all(pod["status"]["phase"] == "Running" for pod in running)

    eventually("the pods are on the other worker", check_moved)

    def check_ended() -> None:
        assert kubernetes.cluster.nodes[1].pid == 0

    eventually("the worker has ended", check_ended)
