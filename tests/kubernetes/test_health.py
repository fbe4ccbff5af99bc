"""`talosctl health` on a cluster that is well, checked by a node and by the client."""

import pytest
from tests.harness.kubernetes import Kubernetes


@pytest.mark.parametrize("side", ["true", "false"])
def test_every_condition_is_met(kubernetes: Kubernetes, side: str) -> None:
    cluster = kubernetes.cluster
    result = cluster.talosctl("-n", cluster.addresses[0], "health", f"--server={side}")
    met = [line for line in result.stderr.splitlines() if line.endswith((": OK", ": SKIP"))]
    assert met[0] == "waiting for etcd to be healthy: OK"
    assert "waiting for kubelet to be healthy: OK" in met
    assert "waiting for all nodes to finish boot sequence: OK" in met
