"""Everything that a control plane node runs is killed, one after another, and comes back by itself."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
from tests.harness.availability import watched
from tests.harness.cluster import check_services, eventually
from tests.harness.kubernetes import Kubernetes
from tests.harness.processor import find_processes, read_parent
from tests.kubernetes.objects import (
    SERVE_NAME,
    SLEEP,
    make_container,
    make_deployment,
    make_head,
    make_pod,
)
from tests.kubernetes.test_manifests import change

from talos.provision.cluster import NodeInfo
from talos.system.proc.sockets import parse_sockets

HEALING_TIMEOUT = 120.0
"""For a program to be back; the kubelet waits ten seconds before it starts one again that ended twice."""
PROGRAMS = (
    "kube-scheduler",
    "kube-controller-manager",
    "kube-proxy",
    "flanneld",
    "kubed",
    "clusterd",
    "kubelet",
    "containerd",
    "etcd",
    "kube-apiserver",
)
ESTABLISHED = 1
"""A connection, in the kernel's list of sockets."""
OUTAGES = {"kube-apiserver", "etcd"}
"""Whose end the one API server does not survive, or has no data without."""


@pytest.fixture(scope="module", autouse=True)
def web(kubernetes: Kubernetes) -> None:
    """Pods on both nodes, which nothing here may restart."""
    kubernetes.apply(make_deployment("steady", 3, make_container(SERVE_NAME)))
    kubernetes.roll_out("steady")


def read_restarts(kubernetes: Kubernetes) -> dict[str, int]:
    pods = kubernetes.get("pods", "--selector", "app=steady")
    return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods}


def check_health(kubernetes: Kubernetes) -> None:
    """Assert that nodes, their services and the pods of the system are healthy."""
    for address in kubernetes.cluster.addresses:
        check_services(kubernetes.cluster, address)
    kubernetes.check_nodes()
    kubernetes.check_pods()


def find(node: NodeInfo, program: str) -> set[int]:
    """The processes of a node that run a program.

    What one of them starts has its name, too, until it runs a program of its own.
    """
    found = {pid for name, pid in find_processes(node) if name == program}
    return {pid for pid in found if read_parent(pid) not in found}


def kill(node: NodeInfo, program: str) -> None:
    """End what runs a program, and wait until as many others do."""
    killed = find(node, program)
    assert killed, f"{node.name} runs no {program}"
    for pid in killed:
        os.kill(pid, signal.SIGKILL)

    def is_back() -> None:
        found = find(node, program)
        assert not found & killed
        assert len(found) >= len(killed), f"{len(found)} of {len(killed)} run"

    eventually(f"{program} runs again", is_back, seconds=HEALING_TIMEOUT, pause=0.2)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_killed_program_comes_back_and_pods_go_on(kubernetes: Kubernetes, program: str) -> None:
    node = kubernetes.cluster.nodes[0]
    before, server = read_restarts(kubernetes), find(node, "kube-apiserver")
    with watched(kubernetes) as endpoint, watched(kubernetes, kubernetes.cluster.nodes[1]) as prism:
        kill(node, program)
        eventually("all is well", partial(check_health, kubernetes), seconds=HEALING_TIMEOUT, pause=0.5)
    if program not in OUTAGES:
        assert not endpoint.failures + prism.failures
    assert read_restarts(kubernetes) == before
    assert program == "kube-apiserver" or find(node, "kube-apiserver") == server
    # What was killed does its work again: a pod is admitted, placed, started, connected, and taken away.
    kubernetes.apply(make_pod("proof", "echo done", node=node.name))
    kubernetes.wait_for("pod/proof", "jsonpath={.status.phase}=Succeeded")
    kubernetes.delete("pod/proof", wait=True)


def test_the_kubelet_goes_on_when_its_source_of_static_pods_starts_again(kubernetes: Kubernetes) -> None:
    """kubed serves them at the same address as before, or the kubelet would have to start with another."""
    node = kubernetes.cluster.nodes[0]
    kubelet = find(node, "kubelet")
    (before,) = kubernetes.cluster.resource("staticpodserverstatus")
    pods = kubernetes.cluster.resource("staticpods", "kube-apiserver")
    kill(node, "kubed")
    well = partial(check_services, kubernetes.cluster, kubernetes.cluster.addresses[0])
    eventually("the services are well", well, seconds=HEALING_TIMEOUT, pause=0.2)
    port = urlsplit(cast("dict[str, str]", before["spec"])["url"]).port

    def is_connected() -> None:
        sockets = parse_sockets(Path(f"/proc/{min(kubelet)}/net/tcp").read_text(encoding="ascii"), "tcp")
        assert any((one.remote_port, one.state) == (port, ESTABLISHED) for one in sockets)

    what = "the kubelet fetches the control plane's pods"
    eventually(what, is_connected, seconds=HEALING_TIMEOUT, pause=0.2)
    # The user's come on another way.
    pod = {"apiVersion": "v1alpha1", "kind": "KubeStaticPodConfig", "name": "proof"}
    spec = {"containers": [make_container(SLEEP)], "terminationGracePeriodSeconds": 1}
    document = {**pod, "pod": {**make_head("Pod", "proof"), "spec": spec}}
    change(kubernetes, document)

    def is_shown() -> None:
        assert kubernetes.kubectl("get", "pod", f"proof-{node.name}", check=False).returncode == 0

    eventually("the static pod is there", is_shown, seconds=HEALING_TIMEOUT, pause=0.5)
    kubernetes.wait_for(f"pod/proof-{node.name}", "condition=Ready")
    change(kubernetes, {**pod, "$patch": "delete"})
    assert find(node, "kubelet") == kubelet
    (after,) = kubernetes.cluster.resource("staticpodserverstatus")
    assert after["spec"] == before["spec"]
    assert kubernetes.cluster.resource("staticpods", "kube-apiserver") == pods
