"""`talosctl rotate-ca` for Kubernetes: the API stays reachable, and in the end the old CA is refused."""

import base64
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.cluster import Cluster, eventually
from tests.harness.kubernetes import Kubernetes, all_images, running_kubernetes
from tests.kubernetes.objects import IMAGE

from talos.pki.certificate import is_signed_by, parse_certificate

STEPS = (
    "> Adding new Kubernetes CA as accepted...",
    "> Making new Kubernetes CA the issuing CA, old Kubernetes CA the accepted CA...",
    "> Removing old Kubernetes CA from the accepted CAs...",
)


def rotate(kubernetes: Kubernetes, *argv: str) -> list[str]:
    """The lines of a rotation."""
    node = kubernetes.cluster.addresses[0]
    command = ("-n", node, "rotate-ca", "--talos=false", *argv)
    return kubernetes.cluster.talosctl(*command, seconds=900).stdout.splitlines()


def test_a_dry_run_shows_the_steps_and_changes_nothing(kubernetes: Kubernetes) -> None:
    before = kubernetes.cluster.resource("machineconfig", "v1alpha1")[0]["metadata"]
    lines = rotate(kubernetes)
    assert [line for line in lines if line in STEPS] == list(STEPS)
    assert sum("skipped (dry-run)" in line for line in lines) == 3 * len(kubernetes.cluster.addresses) + 1
    assert kubernetes.cluster.resource("machineconfig", "v1alpha1")[0]["metadata"] == before


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder = tmp_path_factory.mktemp("clusters")
    with running_kubernetes(folder, controlplanes=3, workers=1, images=all_images()) as kubernetes:
        yield kubernetes


def is_reached(kubernetes: Kubernetes, kubeconfig: Path) -> bool:
    """Whether some API server answers to a kubeconfig's owner."""
    client = Kubernetes(kubernetes.cluster, kubeconfig)
    servers = [f"https://{address}:6443" for address in kubernetes.cluster.addresses[:3]]
    results = [
        client.kubectl("--server", server, "get", "--raw", "/readyz", "--request-timeout=5s", check=False)
        for server in servers
    ]
    return any(result.stdout == "ok" for result in results)


@pytest.mark.soak
def test_the_api_is_reached_all_the_time_and_the_old_authority_is_refused(three: Kubernetes) -> None:
    folder, node = three.kubeconfig.parent, three.cluster.addresses[0]
    first, last = folder / "first", folder / "last"
    current = folder / "current"

    def fetch(path: Path) -> None:
        three.cluster.talosctl("-e", node, "-n", node, "kubeconfig", str(path), "--merge=false", "--force")

    fetch(first)
    failures: list[int] = []
    stopped = threading.Event()

    def call() -> None:
        tries = 0
        while not stopped.is_set():
            # As a user does whose certificate is refused: the nodes issue a new one at any time.
            fetch(current)
            if not is_reached(three, current):
                failures.append(tries)
            tries += 1
            stopped.wait(1)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        lines = rotate(three, "--dry-run=false")
    finally:
        stopped.set()
        thread.join()
    assert not failures, failures
    nodes = len(three.cluster.addresses)
    assert lines.count(f" - OK ({nodes} nodes ready)") == 3
    assert not is_reached(three, first)
    fetch(last)
    three.kubeconfig = last
    eventually("every node is ready", three.check_nodes, pause=1)
    eventually("every pod is ready", three.check_pods, pause=1)
    authority = parse_certificate(
        base64.b64decode(
            yaml.safe_load(last.read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
        )
    )
    for info in three.cluster.nodes:
        # Each kubelet has joined anew.
        path = three.cluster.root(info) / "var/lib/kubelet/pki/kubelet-client-current.pem"
        name = path.readlink().name if path.is_symlink() else path.name
        assert is_signed_by(parse_certificate((path.parent / name).read_bytes()), [authority]), info.name
    command = "nslookup kubernetes.default.svc.cluster.local"
    result = three.kubectl(
        "run", "dns", "--image", IMAGE, "--restart=Never", "--attach", "--rm", "--quiet", "--command", "--",
        "sh", "-c", command, seconds=90,
    )  # fmt: skip
    assert "10.96.0.1" in result.stdout


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder = tmp_path_factory.mktemp("clusters")
    with running_kubernetes(folder, controlplanes=1, workers=1, images=all_images()) as kubernetes:
        yield kubernetes


def rotate_until(cluster: Cluster, step: str) -> None:
    """Begin a rotation, and kill the client once the first node has followed a step."""
    node = cluster.addresses[0]
    argv = cluster.command("-n", node, "rotate-ca", "--talos=false", "--dry-run=false")
    lines: list[str] = []
    with subprocess.Popen(
        argv, env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as client:
        assert client.stdout is not None
        try:
            for line in client.stdout:
                lines.append(line.rstrip("\n"))
                if step in lines and lines[-1] == f"  - {node}: OK":
                    return
        finally:
            client.kill()
    raise AssertionError("\n".join(lines))


def accepted(cluster: Cluster, address: str) -> list[str]:
    """The authorities that a node's kubelet accepts."""
    (secret,) = cluster.resource("-n", address, "kubeletsecrets")
    spec: Any = secret["spec"]
    return [str(one["crt"]) for one in spec["acceptedCAs"]]


@pytest.mark.soak
def test_a_rotation_begins_anew_where_another_was_interrupted(two: Kubernetes) -> None:
    cluster = two.cluster
    (first,) = accepted(cluster, cluster.addresses[0])
    for step in STEPS:
        rotate_until(cluster, step)
        found = [accepted(cluster, address) for address in cluster.addresses]
        assert len({tuple(one) for one in found}) == 2, f"{step}: {found}"
    lines = rotate(two, "--dry-run=false")
    assert "> Left by an interrupted rotation, replaced, too:" in lines
    last = {tuple(accepted(cluster, address)) for address in cluster.addresses}
    assert len(last) == 1, last
    (only,) = next(iter(last))
    assert only != first
    two.kubeconfig.unlink()
    eventually("every node is ready", two.check_nodes, pause=1)
    eventually("every pod is ready", two.check_pods, pause=1)
