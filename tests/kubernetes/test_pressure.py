"""A node that runs out of disk or memory: its pods move away, it stays manageable, and it recovers."""

import errno
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.harness.cluster import check_services, eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import SLEEP, make_pod

from talos.provision.cluster import NodeInfo

EVICTION_TIMEOUT = 120.0
"""The kubelet looks every 10 s, and evicts one pod at a time."""
SETTING, SHORT, USUAL = "evictionPressureTransitionPeriod", "30s", "5m0s"
"""How long a node stays under pressure after its cause is gone: not so short that it isn't reported."""
DELETED = {"$patch": "delete"}
PIECE = 64 << 20
"""Bytes of the first attempts to fill a disk; the last ones are of a block."""
SPARE, TAKEN = 384 << 20, 768 << 20
"""Bytes of memory that a node has left, and that a pod takes of it."""


@pytest.fixture(scope="module")
def worker(kubernetes: Kubernetes) -> Generator[NodeInfo]:
    """The worker, whose kubelet forgets pressure soon."""
    node = kubernetes.cluster.nodes[1]
    change(kubernetes, node, {SETTING: SHORT}, {SETTING: SHORT})
    yield node
    change(kubernetes, node, {SETTING: DELETED}, {SETTING: USUAL})


def change(
    kubernetes: Kubernetes, node: NodeInfo, settings: Mapping[str, object], results: Mapping[str, object]
) -> None:
    """Patch the configuration of a node's kubelet, and wait until it has started again with the results."""
    document = {"apiVersion": "v1alpha1", "kind": "KubeletConfig", "config": settings}
    argv = ("-n", str(node.address), "patch", "machineconfig", "--patch", json.dumps(document))
    kubernetes.cluster.talosctl(*argv)

    def is_used() -> None:
        found = read_kubelet(kubernetes, node, "configz")["kubeletconfig"]
        assert {name: found.get(name) for name in results} == results

    eventually("the kubelet has its settings", is_used, seconds=EVICTION_TIMEOUT, pause=0.5)
    eventually("the nodes are ready", kubernetes.check_nodes, seconds=EVICTION_TIMEOUT, pause=0.5)


def read_kubelet(kubernetes: Kubernetes, node: NodeInfo, path: str) -> dict[str, Any]:
    """What a node's kubelet serves."""
    found = kubernetes.kubectl("get", "--raw", f"/api/v1/nodes/{node.name}/proxy/{path}", check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@contextmanager
def full(folder: Path) -> Generator[None]:
    """A file system without a free block for as long as the context is open; nothing is written to it."""
    path = folder / "filler"
    with path.open("wb") as file:
        size, piece = 0, PIECE
        while piece >= 4096:
            try:
                os.posix_fallocate(file.fileno(), size, piece)
                size += piece
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece //= 2
    try:
        yield
    finally:
        path.unlink()


def check_condition(kubernetes: Kubernetes, node: NodeInfo, condition: str, status: str) -> None:
    """Assert what the node reports."""
    (found,) = kubernetes.get("node", node.name)
    conditions = {one["type"]: one for one in found["status"]["conditions"]}
    assert conditions[condition]["status"] == status, conditions[condition]


def wait_for_condition(kubernetes: Kubernetes, node: NodeInfo, condition: str, status: str) -> None:
    """Until the node reports a condition."""
    what = f"{node.name} has {condition} {status}"
    check = partial(check_condition, kubernetes, node, condition, status)
    eventually(what, check, seconds=EVICTION_TIMEOUT, pause=0.5)


def wait_for_eviction(kubernetes: Kubernetes, name: str, resource: str) -> None:
    """Until a pod is evicted for the lack of a resource."""

    def is_evicted() -> None:
        (pod,) = kubernetes.get("pod", name)
        assert pod["status"].get("reason") == "Evicted", pod["status"]
        assert f"low on resource: {resource}" in pod["status"]["message"]

    eventually(f"{name} is evicted", is_evicted, seconds=EVICTION_TIMEOUT, pause=0.5)


def run_proof(kubernetes: Kubernetes, node: NodeInfo) -> None:
    """Have a new pod run on the node, and remove what was evicted."""

    def is_placed() -> None:
        kubernetes.kubectl("delete", "pod", "proof", "--ignore-not-found")
        kubernetes.apply(make_pod("proof", "echo done", node=node.name))
        argv = ("wait", "pod/proof", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=20s")
        result = kubernetes.kubectl(*argv, check=False)
        assert result.returncode == 0, kubernetes.kubectl("get", "pod", "proof", "-o", "yaml").stdout

    eventually("a new pod runs", is_placed, seconds=EVICTION_TIMEOUT)
    kubernetes.kubectl("delete", "pods", "--field-selector=status.phase=Failed")
    kubernetes.delete("pod/proof", wait=True)
    eventually("the system's pods are ready", kubernetes.check_pods, seconds=EVICTION_TIMEOUT, pause=0.5)
    check_services(kubernetes.cluster, str(node.address))


@pytest.mark.soak
def test_a_full_disk_leaves_the_node_manageable(kubernetes: Kubernetes, worker: NodeInfo) -> None:
    """Slow: the kubelet looks at its disk, and decides, at its own pace."""
    cluster, address = kubernetes.cluster, str(worker.address)
    kubernetes.apply(make_pod("victim", SLEEP, node=worker.name))
    kubernetes.wait_for("pod/victim", "condition=Ready")
    with full(cluster.root(worker) / "var"):
        wait_for_condition(kubernetes, worker, "DiskPressure", "True")
        wait_for_eviction(kubernetes, "victim", "ephemeral-storage")
        # A config is kept on another partition than pods and logs.
        patch = json.dumps({"apiVersion": "v1alpha1", "kind": "KubeNodeConfig", "labels": {"disk": "full"}})
        cluster.talosctl("-n", address, "patch", "machineconfig", "--patch", patch)
        assert "disk: full" in cluster.talosctl("-n", address, "get", "machineconfig", "-o", "yaml").stdout
        check_services(cluster, address)
        for name in ("machined", "kubelet"):
            assert cluster.talosctl("-n", address, "logs", name, "--tail", "5").stdout.strip()
        assert cluster.talosctl("-n", address, "usage", "/var/log").stdout
    wait_for_condition(kubernetes, worker, "DiskPressure", "False")
    run_proof(kubernetes, worker)
    (node,) = kubernetes.get("node", worker.name)
    assert node["metadata"]["labels"]["disk"] == "full"
    gone = {"apiVersion": "v1alpha1", "kind": "KubeNodeConfig", "labels": {"disk": DELETED}}
    cluster.talosctl("-n", address, "patch", "machineconfig", "--patch", json.dumps(gone))


def make_modest(node: NodeInfo) -> dict[str, Any]:
    """A pod that takes less memory than it requests."""
    return make_pod("modest", SLEEP, node=node.name, resources={"requests": {"memory": "64Mi"}})


def make_greedy(node: NodeInfo) -> dict[str, Any]:
    """A pod that requests no memory, and keeps a file in it."""
    pod = make_pod(
        "greedy",
        f"dd if=/dev/zero of=/data/file bs=1M count={TAKEN >> 20}; {SLEEP}",
        node=node.name,
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    pod["spec"]["volumes"] = [{"name": "data", "emptyDir": {"medium": "Memory"}}]
    return pod


@pytest.mark.soak
def test_a_pod_that_takes_a_nodes_memory_is_evicted(kubernetes: Kubernetes, worker: NodeInfo) -> None:
    """Slow for the same reason. A threshold makes the node small; without one, this machine would suffer."""
    kubernetes.apply(make_modest(worker))
    kubernetes.wait_for("pod/modest", "condition=Ready")
    memory = read_kubelet(kubernetes, worker, "stats/summary")["node"]["memory"]
    thresholds = {
        "evictionSoft": {"memory.available": str(memory["availableBytes"] - SPARE)},
        "evictionSoftGracePeriod": {"memory.available": "1s"},
    }
    try:
        change(kubernetes, worker, thresholds, thresholds)
        check_condition(kubernetes, worker, "MemoryPressure", "False")
        kubernetes.apply(make_greedy(worker))
        wait_for_eviction(kubernetes, "greedy", "memory")
        wait_for_condition(kubernetes, worker, "MemoryPressure", "True")
        check_services(kubernetes.cluster, str(worker.address))
        wait_for_condition(kubernetes, worker, "MemoryPressure", "False")
    finally:
        change(kubernetes, worker, dict.fromkeys(thresholds, DELETED), dict.fromkeys(thresholds))
    # What the node itself needs has stayed, as has what takes no more than it requested.
    pods = kubernetes.get("pods", "--all-namespaces", "--field-selector", f"spec.nodeName={worker.name}")
    evicted = {pod["metadata"]["name"] for pod in pods if pod["status"].get("reason") == "Evicted"}
    assert evicted == {"greedy"}
    kubernetes.delete("pod/modest")
    run_proof(kubernetes, worker)
