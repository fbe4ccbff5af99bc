"""metrics-server by its own manifest: `kubectl top` shows what nodes and pods use, and deployments scale."""

import re

import pytest
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import make_container, make_deployment, make_head
from tests.kubernetes.workloads.manifests import read_manifest, tag_of

pytestmark = pytest.mark.soak

LABELS = {"k8s-app": "metrics-server"}
SCRAPED = 120.0
"""Seconds until there are figures: it calls each kubelet twice, 15 seconds apart."""
SCALED = 240.0
"""Seconds until a deployment is scaled: its controller looks four times a minute, at pods that are ready."""


def install(kubernetes: Kubernetes) -> None:
    """Apply its manifest with what its kustomization adds: the labels and the image."""
    (deployment,) = read_manifest("metrics-server-deployment")
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    container["image"] = f"registry.k8s.io/metrics-server/metrics-server:{tag_of('metrics-server')}"
    deployment["spec"]["selector"] = {"matchLabels": LABELS}
    template["metadata"] = {"labels": LABELS}
    (service,) = read_manifest("metrics-server-service")
    service["spec"]["selector"] = LABELS
    rest = [*read_manifest("metrics-server-rbac"), *read_manifest("metrics-server-apiservice")]
    kubernetes.apply(deployment, service, *rest)


def top(kubernetes: Kubernetes, *argv: str) -> dict[str, str]:
    """The rows of `kubectl top`, by name."""
    result = kubernetes.kubectl("top", *argv, "--no-headers", check=False)
    assert result.returncode == 0, result.stderr
    return dict(line.split(maxsplit=1) for line in result.stdout.splitlines())


@pytest.fixture(scope="module", autouse=True)
def busy(workloads: Kubernetes) -> None:
    """metrics-server, and a deployment that takes more than it has requested."""
    resources = {"requests": {"cpu": "20m"}, "limits": {"cpu": "100m"}}
    container = make_container("while :; do :; done", resources=resources)
    workloads.apply(make_deployment("busy", 1, container))
    install(workloads)
    workloads.wait_for("deployment/metrics-server", "condition=Available", namespace="kube-system")
    workloads.wait_for("apiservice/v1beta1.metrics.k8s.io", "condition=Available")


def test_nodes_and_pods_have_figures(workloads: Kubernetes) -> None:
    """It verifies the kubelets' certificates, which control plane nodes have approved."""

    def check() -> None:
        nodes = top(workloads, "nodes")
        assert nodes.keys() == {node.name for node in workloads.cluster.nodes}, nodes
        for row in nodes.values():
            assert re.fullmatch(r"[1-9]\d*m +\d+% +[1-9]\d*Mi +\d+% *", row), nodes
        pods = top(workloads, "pods")
        assert any(re.fullmatch(r"[1-9]\d*m +\d+Mi *", row) for row in pods.values()), pods
        system = top(workloads, "pods", "--namespace", "kube-system")
        assert any(name.startswith("kube-apiserver-") for name in system), system

    eventually("there are figures", check, seconds=SCRAPED, pause=2)


def test_a_deployment_is_scaled_by_its_use_of_processors(workloads: Kubernetes) -> None:
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "busy"},
        "maxReplicas": 2,
        "metrics": [{"type": "Resource", "resource": metric}],
    }
    head = make_head("HorizontalPodAutoscaler", "busy", version="autoscaling/v2")
    workloads.apply({**head, "spec": spec})

    def check() -> None:
        (deployment,) = workloads.get("deployment", "busy")
        (scaler,) = workloads.get("hpa", "busy")
        assert deployment["spec"]["replicas"] == 2, scaler["status"]

    eventually("there is another pod", check, seconds=SCALED, pause=2)
    workloads.delete("hpa/busy", "deployment/busy")
