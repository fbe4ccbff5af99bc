"""A change of several control plane nodes at once: they restart their API servers one after another."""

import itertools
import json
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import cast

import pytest
from tests.harness.availability import watched
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes

from talos.kubernetes.access import ClusterAccess, parse_kubeconfig
from talos.kubernetes.client import KubernetesClient, KubernetesError

ROLLOUT_TIMEOUT = 240.0
"""For three API servers to be replaced, each within a minute, on a machine that others use."""
NODES = 3
PROBE_INTERVAL = 0.1  # seconds
"""Between two questions to each API server."""
UNKNOWN_FLAG = "no-such-flag"
CONFIG_VERSION = "talos.dev/config-version"


def patch(kubernetes: Kubernetes, arguments: Mapping[str, object]) -> None:
    """Change the API server's arguments on all control plane nodes by one command."""
    document = {"apiVersion": "v1alpha1", "kind": "KubeAPIServerConfig", "extraArgs": arguments}
    nodes = ",".join(kubernetes.cluster.addresses[:NODES])
    kubernetes.cluster.talosctl("-n", nodes, "patch", "machineconfig", "--patch", json.dumps(document))


def check_settled(kubernetes: Kubernetes) -> None:
    """Assert that every API server is ready with its node's config, as its kubelet and the API show it."""
    pods = kubernetes.get("pods", "-n", "kube-system", "--selector", "k8s-app=kube-apiserver")
    found = {pod["status"].get("hostIP"): pod for pod in pods}
    for node in kubernetes.cluster.nodes[:NODES]:
        address = str(node.address)
        rows = kubernetes.cluster.rows("-n", address, "get", "staticpodstatus")
        ready = {row["ID"]: row["READY"] for row in rows}
        # The API keeps what a kubelet has shown before its node was restarted.
        assert ready.get(f"kube-system/kube-apiserver-{node.name}") == "True", f"{address}: {ready}"
        (config,) = kubernetes.cluster.resource("-n", address, "apiserverconfig", "kube-apiserver")
        metadata = cast("dict[str, object]", config["metadata"])
        pod = found.get(address)
        assert pod, f"{address} has no API server"
        running, wanted = pod["metadata"]["annotations"][CONFIG_VERSION], str(metadata["version"])
        assert running == wanted, f"{address} runs version {running}, and not {wanted}"
        conditions = {one["type"]: one["status"] for one in pod["status"]["conditions"]}
        assert conditions["Ready"] == "True", f"{address}: {conditions}"


def wait_until_settled(kubernetes: Kubernetes) -> None:
    """Until all nodes have had their turn."""
    settled = partial(check_settled, kubernetes)
    eventually("the API servers are replaced", settled, seconds=ROLLOUT_TIMEOUT, pause=0.5)


type Absences = dict[str, list[tuple[float, float]]]


@contextmanager
def observed(kubernetes: Kubernetes) -> Generator[Absences]:
    """From when to when each API server did not answer, by its node's address."""
    access = parse_kubeconfig(kubernetes.read_kubeconfig())
    absences: Absences = {address: [] for address in kubernetes.cluster.addresses[:NODES]}
    stop = threading.Event()

    def call(found: list[tuple[float, float]], access: ClusterAccess) -> None:
        client, since = KubernetesClient(access), 0.0
        while not stop.wait(PROBE_INTERVAL):
            began = time.monotonic()
            try:
                client.call_now("GET", "/api/v1/namespaces/kube-system")
            except (KubernetesError, OSError):
                since = since or began
                continue
            if since:
                found.append((since, began))
                since = 0.0
        if since:
            found.append((since, time.monotonic()))

    threads = [
        threading.Thread(target=call, args=(found, replace(access, server=f"https://{address}:6443")))
        for address, found in absences.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield absences
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def check_order(absences: Absences) -> None:
    """Assert that no API server was unavailable while another one was."""
    spans = sorted((*span, node) for node, found in absences.items() for span in found)
    for (_, end, one), (begin, _, other) in itertools.pairwise(spans):
        assert one == other or end <= begin, f"{one} and {other} were away at the same time: {spans}"


def describe(absences: Absences, start: float) -> str:
    """Seconds since the start."""
    parts = [
        f"{node} {begin - start:.1f} to {end - start:.1f} s"
        for node, found in absences.items()
        for begin, end in found
    ]
    return ", ".join(parts)


def test_api_servers_restart_one_after_another(redundant: Kubernetes) -> None:
    wait_until_settled(redundant)
    start = time.monotonic()
    with ExitStack() as stack:
        absences = stack.enter_context(observed(redundant))
        endpoint = stack.enter_context(watched(redundant))
        prism = stack.enter_context(watched(redundant, redundant.cluster.nodes[-1]))
        patch(redundant, {"max-requests-inflight": ["401"]})
        wait_until_settled(redundant)
    sys.stdout.write(f"away: {describe(absences, start)}\n")
    assert all(absences.values()), "an API server was not replaced"
    check_order(absences)
    assert not endpoint.failures + prism.failures


def read_waiting(kubernetes: Kubernetes) -> dict[str, str]:
    """The nodes that log that they wait for another one, and the line."""
    found: dict[str, str] = {}
    for address in kubernetes.cluster.addresses[:NODES]:
        lines = kubernetes.cluster.talosctl(
            "-n", address, "logs", "kubed", "--tail", "20"
        ).stdout.splitlines()
        waiting = [line for line in lines if "the change of kube-apiserver waits" in line]
        if waiting:
            found[address] = waiting[-1]
    return found


def find_broken(kubernetes: Kubernetes) -> Sequence[str]:
    """The nodes whose API server can't start."""
    return [
        address
        for address in kubernetes.cluster.addresses[:NODES]
        if "CrashLoopBackOff" in str(kubernetes.cluster.resource("-n", address, "staticpodstatus"))
    ]


@pytest.mark.soak
def test_a_mistake_stops_at_the_first_node_until_it_is_mended(redundant: Kubernetes) -> None:
    """Slow: the kubelet starts what fails a few times before that is shown, and all nodes change twice."""
    wait_until_settled(redundant)
    start = time.monotonic()
    with ExitStack() as stack:
        absences = stack.enter_context(observed(redundant))
        endpoint = stack.enter_context(watched(redundant))
        prism = stack.enter_context(watched(redundant, redundant.cluster.nodes[-1]))
        patch(redundant, {UNKNOWN_FLAG: ["1"]})

        def is_shown() -> None:
            assert len(find_broken(redundant)) == 1, find_broken(redundant)

        eventually("the first API server fails", is_shown, seconds=ROLLOUT_TIMEOUT, pause=1)
        (broken,) = find_broken(redundant)
        name = next(node.name for node in redundant.cluster.nodes if str(node.address) == broken)
        waiting = read_waiting(redundant)
        others = set(redundant.cluster.addresses[:NODES]) - {broken}
        assert {one for one in others if f"{name} changes its own" in waiting.get(one, "")} == others, waiting
        patch(redundant, {UNKNOWN_FLAG: {"$patch": "delete"}})
        wait_until_settled(redundant)
        eventually("all is well", redundant.check_pods, seconds=ROLLOUT_TIMEOUT, pause=0.5)
    sys.stdout.write(f"away: {describe(absences, start)}\n")
    check_order(absences)
    assert not endpoint.failures + prism.failures
