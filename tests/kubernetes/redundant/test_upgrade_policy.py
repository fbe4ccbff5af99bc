"""The upgrade controller as a pod: it follows policies of Kubernetes, also while its own node is upgraded."""

import re
from typing import Any

import pytest
import yaml
from tests.harness.cluster import REPOSITORY, eventually
from tests.harness.kubernetes import Kubernetes
from tests.harness.releases import Releases

from talos.api.metadata import READER
from talos.provision.cluster import MIRROR_PORT, Role
from talos.upgrade.release.archive import REPOSITORY as INSTALLER
from talos.upgrade.release.signature import format_public
from talos.upgrade_controller.manifests import (
    GROUP,
    KIND,
    NAMESPACE,
    PAGE,
    PROGRAM,
    ROLE,
    SNAPSHOT_ROLE,
    VERSION,
    format_manifests,
)

NEXT = "v1.15.3"
UPGRADE_TIMEOUT = 240.0  # seconds
"""For a node to be upgraded, and the controller to start anew elsewhere."""
ARCHIVE = REPOSITORY / "build/upgrade-controller.tar"
ACCESS = {"apiVersion": "v1alpha1", "kind": "KubeTalosAPIAccessConfig"}
PAGE_TIMEOUT = 90.0  # seconds
"""For a pod to have an account's Secret that is new, and for the page's next check of it."""
SNAPSHOTS = {
    "recipients": ["age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"],
    "folder": "/dev/shm",  # all that the pod may write
}


def find_image() -> str:
    """The name of the controller's image."""
    assert ARCHIVE.exists(), f"there is no image at {ARCHIVE}: make upgrade-controller"
    version = (REPOSITORY / "VERSION").read_text(encoding="utf-8").strip()
    return f"ghcr.io/siderolabs/{PROGRAM}:{version}"


@pytest.fixture(scope="module")
def controlled(redundant: Kubernetes, releases: Releases) -> Kubernetes:
    """With the controller, preferably on the worker, which the tests upgrade."""
    (releases.images / ARCHIVE.name).symlink_to(ARCHIVE.resolve())
    allow(redundant, allowedRoles=[ROLE, SNAPSHOT_ROLE], allowedKubernetesNamespaces=[NAMESPACE])
    there = {"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}
    preference = {"weight": 100, "preference": {"matchExpressions": [there]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}
    manifests = list(yaml.safe_load_all(format_manifests(find_image(), snapshots=True)))
    manifests[-1]["spec"]["template"]["spec"]["affinity"] = affinity

    def apply() -> None:
        # The kind of accounts appears a moment after the config.
        text = yaml.safe_dump_all(manifests)
        result = redundant.kubectl("apply", "-f", "-", stdin=text, check=False)
        assert result.returncode == 0, result.stderr

    eventually("the controller is applied", apply, pause=1)
    redundant.kubectl(
        *("--namespace", NAMESPACE, "rollout", "status", f"deployment/{PROGRAM}", "--timeout=120s"),
        seconds=130,
    )
    return redundant


def allow(kubernetes: Kubernetes, **more: list[str]) -> None:
    """Add to what pods may get of the nodes."""
    nodes = [str(node.address) for node in kubernetes.cluster.nodes if node.role is Role.CONTROL_PLANE]
    patch = yaml.safe_dump({**ACCESS, **more})
    argv = ("-n", ",".join(nodes), "patch", "machineconfig", "--patch", patch)
    kubernetes.cluster.talosctl(*argv, seconds=UPGRADE_TIMEOUT)


def make_policy(
    kubernetes: Kubernetes, releases: Releases, name: str = "stable", **more: Any
) -> dict[str, Any]:
    """A policy for the workers, on the channel of the cluster's mirror."""
    channel = {
        "image": f"{INSTALLER}:stable",
        "keys": [format_public(releases.key.public_key()).decode()],
        "endpoint": f"http://{kubernetes.cluster.info.subnet[-2]}:{MIRROR_PORT}",
    }
    is_worker = {"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}
    spec = {"channel": channel, "nodes": {"matchExpressions": [is_worker]}, **more}
    return make_resource(name, spec)


def make_resource(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A policy with these settings."""
    head = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    return {**head, "spec": spec}


def check_status(
    kubernetes: Kubernetes, state: str, *, name: str = "stable", reason: str = ""
) -> dict[str, Any]:
    """Assert what a policy's status shows of its newest spec, and return it."""
    (found,) = kubernetes.get(f"{KIND.lower()}.{GROUP}", name, "--namespace", NAMESPACE)
    status = found.get("status", {})
    assert status.get("observedGeneration") == found["metadata"]["generation"], status
    assert status["state"] == state, status
    assert reason in status["reason"], status
    return status


def test_a_policy_that_is_wrong_is_named(controlled: Kubernetes, releases: Releases) -> None:
    window = {"from": "22:00", "to": "04:00", "timeZone": "Europe/Nowhere"}
    controlled.apply(make_policy(controlled, releases, "wrong", windows=[window]))
    text = "spec.windows[0].timeZone: 'Europe/Nowhere' is no known time zone"
    eventually("it is named", lambda: check_status(controlled, "error", name="wrong", reason=text))
    controlled.delete(f"{KIND.lower()}.{GROUP}/wrong", "--namespace", NAMESPACE)


def test_snapshots_alone_are_events_and_metrics(controlled: Kubernetes) -> None:
    controlled.apply(make_resource("backup", {"snapshots": SNAPSHOTS}))

    def find_snapshot() -> dict[str, str]:
        snapshot = check_status(controlled, "idle", name="backup").get("snapshot", {})
        assert snapshot.get("state") == "current", snapshot
        return snapshot

    snapshot = eventually("a snapshot is taken", find_snapshot)

    def check_event() -> None:
        of_policy = f"involvedObject.kind={KIND},involvedObject.name=backup"
        (event,) = controlled.get("events", "--namespace", NAMESPACE, "--field-selector", of_policy)
        assert (event["type"], event["reason"]) == ("Normal", "SnapshotTaken")
        assert event["message"].startswith(f"{snapshot['name']} of {snapshot['node']}, ")

    eventually("there is an event", check_event)
    address = f"/api/v1/namespaces/{NAMESPACE}/services/{PROGRAM}:metrics/proxy/metrics"
    metrics = controlled.kubectl("get", "--raw", address).stdout
    assert 'talos_etcd_snapshots_total{policy="backup",result="taken"} 1\n' in metrics, metrics
    controlled.delete(f"{KIND.lower()}.{GROUP}/backup", "--namespace", NAMESPACE)


def test_the_page_is_behind_the_proxy_of_the_api_server(controlled: Kubernetes) -> None:
    def find_address() -> str:
        argv = ("--namespace", NAMESPACE, "logs", f"deployment/{PROGRAM}", "--container", "page")
        log = controlled.kubectl(*argv).stdout
        found = re.search(r"http://127\.0\.0\.1:8001(/api/\S+/)", log)
        assert found, log
        return found[1]

    address = eventually("the page has an address", find_address, pause=1)
    # With the body of the reply.
    without = controlled.kubectl("get", "--raw", address, "-v=8", check=False)
    assert without.returncode != 0
    assert "allow os:reader and the namespace in KubeTalosAPIAccessConfig" in without.stderr
    allow(controlled, allowedRoles=[READER])
    # The kubelet looks at a pod's Secrets once a minute, and when the pod changes.
    controlled.wait_for(f"secret/{PAGE}", "create", namespace=NAMESPACE)
    controlled.kubectl("--namespace", NAMESPACE, "annotate", "pods", "--all", "test=access")

    def check_page() -> None:
        # The proxy writes the markup anew.
        shown = controlled.kubectl("get", "--raw", address, check=False)
        assert '<script src="page.js"' in shown.stdout, shown

    eventually("the page is at the same address", check_page, seconds=PAGE_TIMEOUT, pause=1)
    assert "EventSource" in controlled.kubectl("get", "--raw", f"{address}page.js").stdout
    stranger = controlled.kubectl("get", "--raw", f"{address}../page.js", check=False)
    assert stranger.returncode != 0
    assert "EventSource" not in stranger.stdout

    def check_nodes() -> None:
        # Events have no end but this one.
        argv = ("get", "--raw", f"{address}events", "--request-timeout=2s")
        shown = controlled.kubectl(*argv, check=False).stdout
        for node in controlled.cluster.nodes:
            assert re.search(rf'"name":"{node.name}"[^{{}}]*"ready":true', shown), shown

    eventually("it shows every node", check_nodes)


def test_workers_follow_a_policy(controlled: Kubernetes, releases: Releases) -> None:
    (worker, *others) = (node for node in controlled.cluster.nodes if node.role is Role.WORKER)
    releases.make(NEXT, tag="stable")
    controlled.apply(make_policy(controlled, releases, paused=True))
    status = eventually("it is paused", lambda: check_status(controlled, "paused", reason=worker.name))
    assert status["release"]["version"] == NEXT
    assert [node["hostname"] for node in status["nodes"]] == [node.name for node in (worker, *others)]
    controlled.apply(make_policy(controlled, releases))
    status = eventually(
        "all workers run it", lambda: check_status(controlled, "current"), seconds=UPGRADE_TIMEOUT, pause=1
    )
    assert {node["version"] for node in status["nodes"]} == {NEXT}
    address = str(worker.address)
    text = controlled.cluster.talosctl("-e", address, "-n", address, "version", "--short").stdout
    assert NEXT in text.split("Server:")[1], text
    eventually("all is well", controlled.check_pods, seconds=UPGRADE_TIMEOUT, pause=1)
