"""Nodes are restarted and upgraded in turn: the API is there all the time, and what ran before runs again.

HEALING_NODES restarts so many of them, all with ``all``; HEALING_WORKERS is how many workers there are.
"""

import os
import sys
from collections.abc import Callable
from functools import partial

import pytest
from tests.harness.availability import Watched, watched
from tests.harness.cluster import check_services, eventually
from tests.harness.kubernetes import Kubernetes, has_ended
from tests.harness.releases import Releases
from tests.kubernetes.objects import SERVE_NAME, make_container, make_deployment, make_pod, make_service

from talos.provision.cluster import NodeInfo, Role

REBOOT_TIMEOUT = 240.0  # seconds
"""For a node to be back, with all that ran on it."""
NODES = os.environ.get("HEALING_NODES", "")
NEXT = "v1.15.1"
"""The release that nodes are upgraded to."""
REACH = "until wget -q -T 5 -O - http://spread/; do sleep 1; done"
"""A pod may run before its node has the services: the order is not defined."""
OUTAGE = 20.0
"""Seconds without an answer, at most: a connection to a node that is gone has to fail first."""


@pytest.fixture(scope="module", autouse=True)
def web(redundant: Kubernetes) -> None:
    """Pods on every node, behind a service."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    container = make_container(SERVE_NAME, readinessProbe={"httpGet": {"path": "/", "port": 8080}})
    replicas = len(redundant.cluster.nodes)
    redundant.apply(
        make_deployment("spread", replicas, container, topologySpreadConstraints=[spread]),
        make_service("spread", [{"port": 80, "targetPort": 8080}]),
    )
    redundant.roll_out("spread")


def choose(nodes: tuple[NodeInfo, ...]) -> list[NodeInfo]:
    """The leader's neighbour and a worker are enough for a short run."""
    if NODES == "all":
        return list(nodes)
    control_plane = [node for node in nodes if node.role is Role.CONTROL_PLANE]
    workers = [node for node in nodes if node.role is Role.WORKER]
    return [control_plane[0], workers[0]]


def check_all(kubernetes: Kubernetes, node: NodeInfo) -> None:
    """Assert that a node has started anew, and that nothing in the cluster is left in between."""
    now = next(one for one in kubernetes.cluster.nodes if one.name == node.name)
    assert now.pid not in {0, None, node.pid}, "the node has not been restarted"
    (found,) = kubernetes.get("node", node.name)
    assert not found["spec"].get("unschedulable"), "the node takes no pods"
    for address in kubernetes.cluster.addresses:
        check_services(kubernetes.cluster, address)
    kubernetes.check_nodes()
    kubernetes.check_pods()
    for pod in kubernetes.get("pods", "--all-namespaces"):
        name = pod["metadata"]["name"]
        assert not pod["metadata"].get("deletionTimestamp"), f"{name} is being deleted"
        ended = has_ended(pod) or pod["status"]["phase"] == "Succeeded"
        assert ended or pod["status"]["phase"] == "Running", f"{name}: {pod['status']}"


def check_outage(what: str, endpoint: Watched, prism: Watched) -> None:
    """Print how long the API was silent while something was done, and assert that it was not long."""
    sys.stdout.write(
        f"{what}: the API's longest silence {endpoint.longest:.1f} s through the endpoint"
        f" ({len(endpoint.failures)} failures, {endpoint.answers} answers),"
        f" {prism.longest:.1f} s through KubePrism ({len(prism.failures)}, {prism.answers})\n"
    )
    assert endpoint.longest < OUTAGE, endpoint.failures[:5]
    assert prism.longest < OUTAGE, prism.failures[:5]


def go_through(redundant: Kubernetes, change: Callable[[NodeInfo], object]) -> None:
    """Do something that restarts a node to one after another, and wait until all is healthy in between."""
    cluster = redundant.cluster
    for name in [node.name for node in choose(cluster.nodes)]:
        node = next(one for one in cluster.nodes if one.name == name)
        other = next(one for one in reversed(cluster.nodes) if one.name != node.name)
        with watched(redundant) as endpoint, watched(redundant, other) as prism:
            change(node)
            check = partial(check_all, redundant, node)
            eventually(f"{node.name} is back", check, seconds=REBOOT_TIMEOUT, pause=1)
        redundant.roll_out("spread")
        check_outage(node.name, endpoint, prism)
        redundant.apply(make_pod("proof", REACH, node=node.name))
        redundant.wait_for("pod/proof", "jsonpath={.status.phase}=Succeeded")
        redundant.delete("pod/proof", wait=True)


def test_nodes_are_restarted_one_after_another(redundant: Kubernetes) -> None:
    def reboot(node: NodeInfo) -> None:
        redundant.cluster.talosctl("-n", str(node.address), "reboot", "--wait=false")

    go_through(redundant, reboot)


@pytest.mark.soak
def test_nodes_are_upgraded_one_after_another(redundant: Kubernetes, releases: Releases) -> None:
    """By talosctl upgrade, which moves pods elsewhere before and waits for the verdict."""
    image = releases.make(NEXT)

    def upgrade(node: NodeInfo) -> None:
        argv = ("-n", str(node.address), "upgrade", "--image", image)
        redundant.cluster.talosctl(*argv, seconds=REBOOT_TIMEOUT)

    go_through(redundant, upgrade)
    for node in choose(redundant.cluster.nodes):
        address = str(node.address)
        text = redundant.cluster.talosctl("-e", address, "-n", address, "version", "--short").stdout
        assert NEXT in text.split("Server:")[1], text
