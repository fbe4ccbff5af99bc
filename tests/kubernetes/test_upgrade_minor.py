"""`talosctl upgrade-k8s` from the minor version before, with its own programs, while a deployment serves.

UPGRADE_CONTROL_PLANES is how many control plane nodes there are, beside a worker.
"""

import os
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.harness.cluster import REPOSITORY, eventually
from tests.harness.kubernetes import READY_TIMEOUT, Kubernetes, all_images, running_kubernetes
from tests.kubernetes.objects import SERVE_NAME, make_container, make_deployment, make_service
from tests.kubernetes.test_upgrade_k8s import VERSION, upgrade

PREVIOUS = "1.36.4"
CONTROL_PLANES = int(os.environ.get("UPGRADE_CONTROL_PLANES", "1"))
NODE_PORT = 30082
MAX_UNAVAILABLE = 3.0
"""Seconds for which a page may be down on a busy machine: no container is stopped, rules change at once."""

pytestmark = pytest.mark.soak


def previous_images() -> Path:
    """The OCI archives of the programs of the version before."""
    path = REPOSITORY / "build/images-previous"
    assert path.exists(), f"there are no images at {path}: make images-previous"
    return path.resolve()


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    """A cluster of the version before, which is served the next one as well once it runs."""
    folder = tmp_path_factory.mktemp("clusters")
    images = folder / "images"
    images.mkdir()
    old = {path.name.partition(f"-v{PREVIOUS}")[0]: path for path in previous_images().iterdir()}
    later: list[Path] = []
    for path in all_images().iterdir():
        if path.name.partition(f"-v{VERSION}")[0] in old:
            later.append(path)
        else:
            (images / path.name).symlink_to(path)
    for path in old.values():
        (images / path.name).symlink_to(path)
    with running_kubernetes(folder, controlplanes=CONTROL_PLANES, workers=1, images=images) as kubernetes:
        for path in later:
            (images / path.name).symlink_to(path)
        yield kubernetes


def kubelet_versions(kubernetes: Kubernetes) -> set[str]:
    """What the nodes' kubelets are, by the API server."""
    return {node["status"]["nodeInfo"]["kubeletVersion"] for node in kubernetes.get("nodes")}


def server_version(kubernetes: Kubernetes) -> str:
    """What the API server is."""
    return kubernetes.kubectl("get", "--raw", "/version").stdout


@contextmanager
def polled(urls: list[str]) -> Generator[list[tuple[str, float]]]:
    """Poll web servers all the time; each one's longest silence in seconds."""
    silences: list[tuple[str, float]] = []
    stopped = threading.Event()

    def poll(url: str) -> None:
        answered, longest = time.monotonic(), 0.0
        while not stopped.is_set():
            with suppress(OSError), urlopen(url, timeout=2) as reply:
                reply.read()
                longest = max(longest, time.monotonic() - answered)
                answered = time.monotonic()
            stopped.wait(0.05)
        longest = max(longest, time.monotonic() - answered)
        silences.append((url, longest))

    threads = [threading.Thread(target=poll, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    try:
        yield silences
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("1.38.0", "unsupported upgrade path 1.36->1.38"),
        ("1.35.6", "unsupported upgrade path 1.36->1.35"),
        ("1.37.9", "kube-apiserver:v1.37.9 can't be pulled"),
    ],
)
def test_a_skipped_and_an_older_version_are_refused(previous: Kubernetes, target: str, message: str) -> None:
    assert kubelet_versions(previous) == {f"v{PREVIOUS}"}
    _, errors = upgrade(previous, "--to", target, check=False)
    assert message in errors
    assert PREVIOUS in server_version(previous)


def test_a_kubelet_is_not_newer_than_the_api_server(previous: Kubernetes) -> None:
    cluster = previous.cluster
    node = cluster.addresses[0]
    image = f"ghcr.io/siderolabs/kubelet:v{VERSION}"
    patch = f"apiVersion: v1alpha1\nkind: KubeletConfig\nimage: {image}\n"
    result = cluster.talosctl("-n", node, "patch", "machineconfig", "--patch", patch, check=False)
    assert "the kubelet 1.37 does not work with kube-apiserver 1.36" in result.stderr, result


def test_what_the_next_version_has_no_more_is_found(previous: Kubernetes) -> None:
    cluster = previous.cluster
    nodes = cluster.addresses[:CONTROL_PLANES]
    gates, served = "SidecarContainers=true", "storage.k8s.io/v1beta1=true"

    def patch(arguments: str) -> None:
        document = f"apiVersion: v1alpha1\nkind: KubeAPIServerConfig\nextraArgs: {{{arguments}}}\n"
        cluster.talosctl("-n", ",".join(nodes), "patch", "machineconfig", "--patch", document)

    def check_settled(*, wanted: bool) -> None:
        pods = previous.get("pods", "-n", "kube-system", "-l", "k8s-app=kube-apiserver")
        assert [gates in str(pod["spec"]) for pod in pods] == [wanted] * CONTROL_PLANES
        previous.check_pods()

    patch(f"feature-gates: '{gates}', runtime-config: '{served}'")
    seconds = READY_TIMEOUT * CONTROL_PLANES
    settled = partial(check_settled, wanted=True)
    eventually("the API servers have the gate", settled, seconds=seconds, pause=1)
    # Each API server counts its own requests.
    path = "/apis/storage.k8s.io/v1beta1/volumeattributesclasses"
    previous.kubectl("--server", f"https://{nodes[-1]}:6443", "get", "--raw", path)
    lines, errors = upgrade(previous, "--to", VERSION, check=False)
    removed = "volumeattributesclasses.v1beta1.storage.k8s.io, removed in 1.37"
    assert f" > warning: clients have requested {removed}" in lines, "\n".join(lines)
    rows = [line.split() for line in lines]
    position = rows.index(["NODE", "COMPONENT", "REMOVED", "FEATURE", "GATE"])
    found = rows[position + 1 : position + 1 + CONTROL_PLANES]
    assert found == [[node, "kube-apiserver", "SidecarContainers"] for node in nodes], "\n".join(lines)
    assert "it uses what Kubernetes 1.37 has no more" in errors
    assert not [line for line in lines if line.startswith("updating")]
    patch("feature-gates: {$patch: delete}, runtime-config: {$patch: delete}")
    settled = partial(check_settled, wanted=False)
    eventually("the API servers are as before", settled, seconds=seconds, pause=1)


def test_a_cluster_is_upgraded_to_the_next_minor_version_while_it_serves(previous: Kubernetes) -> None:
    ports = [{"port": 80, "targetPort": 8080, "nodePort": NODE_PORT}]
    container = make_container(SERVE_NAME, readinessProbe={"tcpSocket": {"port": 8080}})
    previous.apply(make_deployment("page", 4, container), make_service("page", ports, type="NodePort"))
    previous.roll_out("page")
    before = restarts(previous)
    urls = [f"http://{address}:{NODE_PORT}/" for address in previous.cluster.addresses]

    def serves() -> None:
        for url in urls:
            try:
                urlopen(url, timeout=2).close()
            except OSError as error:
                raise AssertionError(f"{url}: {error}") from None

    eventually("the page is there", serves)
    began = time.monotonic()
    with polled(urls) as silences:
        lines, _ = upgrade(previous, "--to", VERSION, "--upgrade-kubelet=false")
        # Kubelets that are a version behind are what is left, and what the next call finds.
        assert VERSION in server_version(previous)
        assert kubelet_versions(previous) == {f"v{PREVIOUS}"}
        eventually("every node is ready", previous.check_nodes, seconds=READY_TIMEOUT, pause=1)
        more, _ = upgrade(previous, "--to", VERSION)
    sys.stderr.write(f"upgraded in {time.monotonic() - began:.0f} s, longest silences {silences}\n")
    assert f" > update kube-apiserver: {PREVIOUS} -> {VERSION}" in lines
    assert f"automatically detected the lowest Kubernetes version {PREVIOUS}" in more
    assert kubelet_versions(previous) == {f"v{VERSION}"}
    assert max(seconds for _, seconds in silences) < MAX_UNAVAILABLE, silences
    assert restarts(previous) == before
    eventually("every node is ready", previous.check_nodes, seconds=READY_TIMEOUT, pause=1)
    eventually("every pod is ready", previous.check_pods, seconds=READY_TIMEOUT, pause=1)


def restarts(kubernetes: Kubernetes) -> dict[str, tuple[int, str]]:
    """Of each pod of the deployment, how often and when it was started."""
    return {
        pod["metadata"]["name"]: (
            pod["status"]["containerStatuses"][0]["restartCount"],
            pod["status"]["containerStatuses"][0]["containerID"],
        )
        for pod in kubernetes.get("pods", "-l", "app=page")
    }
