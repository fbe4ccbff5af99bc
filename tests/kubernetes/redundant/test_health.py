"""`talosctl health` of a healthy cluster, three control plane nodes and a worker, from both sides."""

import pytest
from tests.harness.kubernetes import READY_TIMEOUT, Kubernetes


@pytest.mark.parametrize("side", ["true", "false"])
def test_every_condition_is_met(redundant: Kubernetes, side: str) -> None:
    argv = ("health", f"--server={side}", "--wait-timeout", f"{READY_TIMEOUT:g}s")
    cluster = redundant.cluster
    result = cluster.talosctl("-n", cluster.addresses[0], *argv, seconds=READY_TIMEOUT + 10)
    lines = [line for line in result.stderr.splitlines() if line.startswith("waiting for")]
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
