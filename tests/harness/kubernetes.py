"""Kubernetes on a cluster for tests, looked at with kubectl as a user does."""

import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.cluster import NODE_TIMEOUT, REPOSITORY, Cluster, eventually, running_cluster

from talos.provision.configs import ConfigOptions
from talos.system.errors import UserError
from talos.system.process import CommandResult, run_command

KUBECTL = REPOSITORY / "build/bin/kubectl"
READY_TIMEOUT = 180.0
"""Seconds for nodes to be ready, on a machine that others use, too."""
ROLLOUT_TIMEOUT = 120  # seconds
RETRY_INTERVAL = 1.0  # seconds
NOT_ANSWERED = (
    "TLS handshake timeout",
    "i/o timeout",
    "connection refused",
    "connection reset by peer",
    "client connection lost",
    "EOF",
    "etcdserver: request timed out",
    "etcdserver: leader changed",
)
"""What kubectl writes when its request has reached no API server, or one that is starved by other work."""
UNREADY_TAINTS = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
"""What keeps pods from a node up to five seconds longer than it is not ready."""


def all_images() -> Path:
    """The OCI archives of Kubernetes."""
    path = REPOSITORY / "build/images-all"
    assert path.exists(), f"there are no images at {path}: make all-images"
    return path.resolve()


def link_images(folder: Path) -> Path:
    """A new folder with links to those archives, which a test adds its own to."""
    images = folder / "images"
    images.mkdir()
    for path in all_images().iterdir():
        (images / path.name).symlink_to(path)
    return images


def has_ended(pod: dict[str, Any]) -> bool:
    """Whether the kubelet has ended a pod for good because its node went down."""
    reasons = {one.get("reason") for one in pod["status"].get("conditions", ())}
    return pod["status"]["phase"] in {"Failed", "Succeeded"} and "TerminationByKubelet" in reasons


@dataclass(slots=True)
class Kubernetes:
    """A cluster and the administrator's kubeconfig for it."""

    cluster: Cluster
    kubeconfig: Path

    def kubectl(
        self, *argv: str, check: bool = True, seconds: float = NODE_TIMEOUT, stdin: str | None = None
    ) -> CommandResult:
        """Run kubectl; AssertionError with its output when it fails, or has no end in time."""
        command = self.command(*argv)
        try:
            result = run_command(command, env=dict(os.environ), check=False, timeout=seconds, input=stdin)
        except UserError as error:  # an API server that is down may keep a call
            result = CommandResult(returncode=-1, stdout="", stderr=str(error))
        if check:
            assert result.returncode == 0, f"kubectl {' '.join(argv)}: {result.stdout}{result.stderr}"
        return result

    def repeat(self, *argv: str, seconds: float, stdin: str | None = None) -> CommandResult:
        """Run kubectl until it is answered: a request that may be repeated, and has so many seconds in all.

        AssertionError with its output when the answer is a failure, or when there is none in time.
        """
        deadline = time.monotonic() + seconds
        while True:
            left = max(deadline - time.monotonic(), RETRY_INTERVAL)
            result = self.kubectl(*argv, check=False, seconds=left, stdin=stdin)
            is_answered = result.returncode == 0 or not any(text in result.stderr for text in NOT_ANSWERED)
            if is_answered or time.monotonic() + RETRY_INTERVAL > deadline:
                assert result.returncode == 0, f"kubectl {' '.join(argv)}: {result.stdout}{result.stderr}"
                return result
            time.sleep(RETRY_INTERVAL)

    def command(self, *argv: str) -> list[str]:
        """The argv of a kubectl command on this cluster."""
        if not self.kubeconfig.exists():
            node = self.cluster.addresses[0]
            self.cluster.talosctl("-e", node, "-n", node, "kubeconfig", str(self.kubeconfig), "--force")
        return [str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *argv]

    def read_kubeconfig(self) -> str:
        """The administrator's kubeconfig."""
        self.command()
        return self.kubeconfig.read_text(encoding="utf-8")

    def get(self, *argv: str) -> list[dict[str, Any]]:
        """Objects as kubectl prints them."""
        found = json.loads(self.repeat("get", *argv, "-o", "json", seconds=NODE_TIMEOUT).stdout)
        return found["items"] if found["kind"] == "List" else [found]

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create objects, or change them."""
        document = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.repeat("apply", "-f", "-", seconds=NODE_TIMEOUT, stdin=json.dumps(document))

    def roll_out(self, name: str, *, kind: str = "deployment", namespace: str = "default") -> None:
        """Until every pod of a deployment is one of its latest version, and ready."""
        argv = ("rollout", "status", f"{kind}/{name}", f"--timeout={ROLLOUT_TIMEOUT}s", "-n", namespace)
        self.repeat(*argv, seconds=ROLLOUT_TIMEOUT + 10)

    def wait_for(self, what: str, condition: str, *, namespace: str = "default") -> None:
        """Until an object, as ``kind/name``, is in a condition."""
        argv = ("wait", what, f"--for={condition}", f"--timeout={ROLLOUT_TIMEOUT}s", "-n", namespace)
        self.repeat(*argv, seconds=ROLLOUT_TIMEOUT + 10)

    def delete(self, *objects: str, wait: bool = False) -> None:
        """Remove objects that are there, each as ``kind/name``."""
        seconds = ROLLOUT_TIMEOUT + 10 if wait else NODE_TIMEOUT
        # The request before may have been carried out, and its answer lost.
        argv = ("delete", *objects, f"--wait={str(wait).lower()}", "--ignore-not-found")
        self.repeat(*argv, seconds=seconds)

    def wait_until_ready(self) -> None:
        """Until every node is ready, and so are the pods that a cluster begins with."""
        eventually("every node is ready", self.check_nodes, seconds=READY_TIMEOUT, pause=1)
        eventually("every pod is ready", self.check_pods, seconds=READY_TIMEOUT, pause=1)

    def diagnose(self) -> str:
        """What to look at when a test has failed."""
        parts: list[str] = []
        for argv in (
            ("get", "nodes", "-o", "wide"),
            ("get", "pods", "-A", "-o", "wide"),
            ("get", "events", "-A", "--sort-by=.lastTimestamp"),
        ):
            result = self.kubectl(*argv, check=False)
            output = f"{result.stdout}{result.stderr}".splitlines()[-40:]
            parts.append(f"--- kubectl {' '.join(argv)}\n" + "\n".join(output))
        return "\n".join([self.cluster.diagnose(), *parts])

    def check_nodes(self) -> None:
        """Assert that every node of the cluster is ready, and that the scheduler may choose it again."""
        nodes = self.get("nodes")
        assert len(nodes) == len(self.cluster.nodes), f"{len(nodes)} nodes are registered"
        for node in nodes:
            name = node["metadata"]["name"]
            conditions = {one["type"]: one for one in node["status"].get("conditions", ())}
            ready = conditions.get("Ready", {})
            assert ready.get("status") == "True", f"{name}: {ready.get('message', 'reports nothing')}"
            taints = {taint["key"] for taint in node["spec"].get("taints", ())}
            assert not taints & UNREADY_TAINTS, f"{name} has {taints}"

    def check_pods(self) -> None:
        """Assert that every pod of the system is ready; those that have ended with their node stay."""
        pods = [pod for pod in self.get("pods", "--namespace", "kube-system") if not has_ended(pod)]
        assert pods, "there are no pods"
        for pod in pods:
            statuses = pod["status"].get("containerStatuses", [])
            name = pod["metadata"]["name"]
            assert statuses, f"{name} is not started"
            assert all(status["ready"] for status in statuses), f"{name} is not ready: {statuses}"


@contextmanager
def running_kubernetes(
    folder: Path,
    *,
    controlplanes: int,
    workers: int,
    images: Path,
    stamp: Path | None = None,
    configs: ConfigOptions | None = None,
) -> Generator[Kubernetes]:
    """A cluster with Kubernetes for as long as the context is open, once all of it is ready."""
    with running_cluster(
        folder,
        controlplanes=controlplanes,
        workers=workers,
        images=images,
        stamp=stamp,
        configs=configs,
    ) as cluster:
        kubernetes = Kubernetes(cluster, folder / "kubeconfig")
        kubernetes.wait_until_ready()
        yield kubernetes
