"""A cluster with Kubernetes: the way to its first pod, what a control plane takes, how its API answers."""

import http.client
import json
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.bench.machine import Measured, run_nodes
from tests.bench.report import MEGABYTE, Table
from tests.bench.test_memory import read_memory
from tests.bench.timeline import Milestone, draw
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes, all_images
from tests.harness.processor import find_processes, processor_seconds
from tests.kubernetes.objects import SLEEP, make_pod

from talos.kubernetes.access import ClusterAccess, make_context, parse_kubeconfig
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.provision.cluster import Role

CLUSTER_TIMEOUT = 300.0  # seconds
SETTLING, WINDOW = 60.0, 60.0
"""Seconds after the last change, and over which an idle node is watched."""
CLIENTS, RATE, LOAD_SECONDS = 4, 20.0, 20.0
"""Connections, requests a second of each, and for how long."""
KUBERNETES = ("kube", "flanneld", "coredns", "pause", "containerd-shim")
"""What the names of its processes begin with; kubed is ours."""


def part_of(name: str) -> str:
    """To whom a process of a node belongs."""
    if name.startswith(KUBERNETES) and name != "kubed":
        return "Kubernetes, with its pods' shims"
    return "etcd" if name == "etcd" else "the system, with both containerds"


def watch(measured: Measured, kubernetes: Kubernetes) -> list[Milestone]:
    """Poll until a pod runs; when each step was first seen."""
    found: list[Milestone] = []

    def reach(name: str, check: Callable[[], bool]) -> None:
        def is_reached() -> None:
            try:
                assert check()
            except (KubernetesError, KeyError, IndexError) as error:
                raise AssertionError(str(error)) from None

        eventually(name, is_reached, seconds=CLUSTER_TIMEOUT, pause=0.02)
        found.append(Milestone(name, time.monotonic() - measured.launched))

    eventually("etcd is bootstrapped", measured.cluster.bootstrap, seconds=CLUSTER_TIMEOUT)
    found.append(Milestone("etcd is bootstrapped", time.monotonic() - measured.launched))
    access = parse_kubeconfig(eventually("a kubeconfig", kubernetes.read_kubeconfig, seconds=CLUSTER_TIMEOUT))
    client, nodes = KubernetesClient(access), len(measured.cluster.nodes)

    def count_ready(path: str) -> int:
        items = client.call_now("GET", path)["items"]
        conditions = [one for item in items for one in item["status"].get("conditions", [])]
        return sum(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    pods = "/api/v1/namespaces/default/pods"
    pod = make_pod("first", SLEEP)

    def begin() -> bool:
        client.call_now("POST", pods, pod)
        return True

    reach("the API server is ready", lambda: bool(client.call_now("GET", "/readyz") or True))
    reach("a pod is admitted", begin)
    reach("the first node is ready", lambda: count_ready("/api/v1/nodes") > 0)
    reach("the pod runs", lambda: client.call_now("GET", f"{pods}/first")["status"]["phase"] == "Running")
    reach("every node is ready", lambda: count_ready("/api/v1/nodes") == nodes)
    dns = "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns"
    reach("names are resolved", lambda: count_ready(dns) > 0)
    return sorted(found, key=lambda milestone: milestone.at)


@pytest.mark.parametrize(("controlplanes", "workers"), [(1, 1), (3, 2)])
def test_the_way_to_the_first_pod(tmp_path: Path, controlplanes: int, workers: int) -> None:
    with run_nodes(tmp_path, controlplanes=controlplanes, workers=workers, images=all_images()) as measured:
        milestones = watch(measured, Kubernetes(measured.cluster, tmp_path / "kubeconfig"))
        table = Table(f"From the start of the launcher, {controlplanes} + {workers} nodes", ("CPU s",))
        table.add("all processes", f"{measured.cpu_seconds():.1f}")
        table.notes += draw(milestones).splitlines()
    table.show()


def call(access: ClusterAccess, seconds: float, took: list[float]) -> None:
    """Write and read an object of its own in turn, at a steady rate, over one connection."""
    url = urlsplit(access.server)
    connection = http.client.HTTPSConnection(
        url.hostname or "", url.port or 443, timeout=30, context=make_context(access)
    )
    name = f"load-{threading.get_ident()}"
    path = "/api/v1/namespaces/default/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    connection.getresponse().read()
    began = time.monotonic()
    number = 0
    while (now := time.monotonic()) < began + seconds:
        number += 1
        if number % 2:
            connection.request("GET", f"{path}/{name}")
        else:
            patch = json.dumps({"data": {"number": str(number)}})
            kind = {"Content-Type": "application/merge-patch+json"}
            connection.request("PATCH", f"{path}/{name}", patch, kind)
        response = connection.getresponse()
        response.read()
        assert response.status == http.HTTPStatus.OK, response.status
        took.append(1000 * (time.monotonic() - now))
        time.sleep(max(0.0, began + number / RATE - time.monotonic()))
    connection.close()


def test_an_idle_control_plane(tmp_path: Path) -> None:
    table = Table(f"An idle control plane node over {WINDOW:g} s", ("PSS MiB", "% of a processor"))
    with run_nodes(tmp_path, controlplanes=1, workers=1, images=all_images()) as measured:
        kubernetes = Kubernetes(measured.cluster, tmp_path / "kubeconfig")
        watch(measured, kubernetes)
        kubernetes.wait_until_ready()
        time.sleep(SETTLING)
        node = next(node for node in measured.cluster.nodes if node.role is Role.CONTROL_PLANE)
        processes = find_processes(node)
        used = {pid: processor_seconds(pid) for _, pid in processes}
        began = time.monotonic()
        time.sleep(WINDOW)
        elapsed = time.monotonic() - began
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        rows: list[tuple[str, float, float]] = []
        for name, pid in processes:
            row = (read_memory(pid)["Pss"], 100 * (processor_seconds(pid) - used[pid]) / elapsed)
            rows.append((name, *row))
            sums[part_of(name)] = [one + other for one, other in zip(sums[part_of(name)], row, strict=True)]
        for name, (memory, share) in sums.items():
            table.add(name, f"{memory:.0f}", f"{share:.2f}")
        for name, memory, share in sorted(rows, key=lambda row: -row[1]):
            table.add(f"  {name}", f"{memory:.1f}", f"{share:.2f}")
    table.show()


def test_answers_of_the_api_under_load(tmp_path: Path) -> None:
    with run_nodes(tmp_path, controlplanes=1, workers=1, images=all_images()) as measured:
        kubernetes = Kubernetes(measured.cluster, tmp_path / "kubeconfig")
        watch(measured, kubernetes)
        kubernetes.wait_until_ready()
        took: list[float] = []
        access = parse_kubeconfig(kubernetes.read_kubeconfig())
        threads = [threading.Thread(target=call, args=(access, LOAD_SECONDS, took)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    answers = Table(
        f"The API server under {CLIENTS * RATE:g} requests a second, half of them writes, ms",
        ("p50", "p99", "max", "requests"),
    )
    cuts = statistics.quantiles(took, n=100)
    answers.add("answers", f"{cuts[49]:.1f}", f"{cuts[98]:.1f}", f"{max(took):.1f}", str(len(took)))
    answers.show()


def test_sizes_of_images() -> None:
    table = Table("Images as nodes pull them, compressed", ("MB",))
    sizes = {path.stem: path.stat().st_size for path in all_images().iterdir()}
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        table.add(name, f"{size / MEGABYTE:.1f}")
    table.add("all", f"{sum(sizes.values()) / MEGABYTE:.1f}")
    table.show()
