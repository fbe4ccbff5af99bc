"""`talosctl upgrade-k8s`: what it refuses, the objects that it brings up to date, and a whole upgrade.

Images of one version are there: another version's tag leads to the same programs, and kubelets, which report
their own version, get an image of the same version from another registry.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from tests.harness.aliases import HOST, add_aliases
from tests.harness.cluster import eventually
from tests.harness.kubernetes import ROLLOUT_TIMEOUT, Kubernetes, all_images, running_kubernetes
from tests.kubernetes.test_manifests import change, inline, make_map

from talos.talosctl.cli.exit import Exit

VERSION = "1.37.1"
IMAGES = {
    "--apiserver-image": "kube-apiserver",
    "--controller-manager-image": "kube-controller-manager",
    "--scheduler-image": "kube-scheduler",
    "--proxy-image": "kube-proxy",
    "--kubelet-image": "kubelet",
}
OTHER_IMAGES = [part for flag, name in IMAGES.items() for part in (flag, f"{HOST}/{name}")]


def upgrade(kubernetes: Kubernetes, *argv: str, check: bool = True) -> tuple[list[str], str]:
    """The lines of an upgrade, and its errors."""
    node = kubernetes.cluster.addresses[0]
    result = kubernetes.cluster.talosctl("-n", node, "upgrade-k8s", *argv, check=check, seconds=900)
    assert check or result.returncode in {1, Exit.USAGE}, result.stdout
    return result.stdout.splitlines(), result.stderr


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--to", "1.39.0"), "unsupported upgrade path 1.37->1.39"),
        (("--to", "1.36.4"), "unsupported upgrade path 1.37->1.36"),
        (("--to", "1.38.0"), "version of Kubernetes 1.38.0 is too new to be used with Talos"),
        (("--to", "1.37.9"), "kube-apiserver:v1.37.9 can't be pulled"),
        (("--to", "latest"), '"latest" is not a version'),
        (("--to", VERSION, "--manifests-inventory-policy", "Mine"), "there is no such policy"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_changes(
    kubernetes: Kubernetes, argv: tuple[str, ...], message: str
) -> None:
    before = kubernetes.cluster.resource("machineconfig", "v1alpha1")[0]["metadata"]
    lines, errors = upgrade(kubernetes, *argv, check=False)
    assert message in errors
    assert not [line for line in lines if line.startswith("updating")]
    assert kubernetes.cluster.resource("machineconfig", "v1alpha1")[0]["metadata"] == before


def test_a_dry_run_shows_what_would_change(kubernetes: Kubernetes) -> None:
    lines, _ = upgrade(kubernetes, "--to", VERSION, "--dry-run", *OTHER_IMAGES)
    first, worker = kubernetes.cluster.addresses
    assert lines[:3] == [
        f"automatically detected the lowest Kubernetes version {VERSION}",
        f'discovered controlplane nodes ["{first}"]',
        f'discovered worker nodes ["{worker}"]',
    ]
    assert f' > "{worker}": pre-pulling {HOST}/kubelet:v{VERSION}' in lines
    assert lines.count(" > skipped in dry-run") == 6
    assert " > skipped Deployment/kube-system/coredns: no changes" in lines
    for name in ("kube-apiserver", "kube-scheduler"):
        (pod,) = kubernetes.get("pods", "-n", "kube-system", "-l", f"k8s-app={name}")
        assert HOST not in pod["spec"]["containers"][0]["image"]


def test_objects_are_brought_to_what_the_manifests_say(kubernetes: Kubernetes) -> None:
    first, second = (inline(name, make_map(name, "ours")) for name in ("first", "second"))
    change(kubernetes, first, second)

    def are_there() -> None:
        found = kubernetes.kubectl("get", "configmap", "first", "second", check=False)
        assert found.returncode == 0, found.stderr

    eventually("the manifests are applied", are_there, pause=0.5)
    kubernetes.kubectl("patch", "configmap", "first", "-p", '{"data": {"key": "the user\'s"}}')
    gone = {key: second[key] for key in ("apiVersion", "kind", "name")}
    change(kubernetes, {**gone, "$patch": "delete"})
    lines, _ = upgrade(kubernetes, "--to", VERSION)
    # Other tests' manifests may have been withdrawn, too.
    changes = [line for line in lines if line.startswith(" < ") and "ConfigMap/default/" in line]
    assert changes == [" < configured ConfigMap/default/first", " < deleted ConfigMap/default/second"]
    diff = lines[lines.index(changes[0]) :]
    assert "-  key: the user's" in diff
    assert "+  key: ours" in diff
    assert lines[-2:] == ["waiting for kubernetes objects to be fully reconciled", "done"]
    assert kubernetes.get("configmap", "first")[0]["data"] == {"key": "ours"}
    change(kubernetes, {**gone, "name": "first", "$patch": "delete"})
    kubernetes.kubectl("delete", "configmap", "first")


def test_services_are_there_after_their_program_started_again(kubernetes: Kubernetes) -> None:
    """It finds the rules of the one before, as after each upgrade."""
    argv = ("-n", "kube-system", "-l", "k8s-app=kube-proxy")
    kubernetes.kubectl("delete", "pods", *argv, seconds=ROLLOUT_TIMEOUT)

    def are_replaced() -> None:
        pods = kubernetes.get("pods", *argv)
        assert len(pods) == len(kubernetes.cluster.nodes), f"there are {len(pods)} pods"
        kubernetes.check_pods()

    eventually("its pods are ready", are_replaced, pause=0.5)

    def are_listed(name: str) -> None:
        listing = ("nft", "list", "map", "ip", "kube-proxy", "service-ips")
        found = kubernetes.kubectl("exec", "-n", "kube-system", name, "--", *listing, check=False)
        assert "10.96.0.1 . tcp . 443 : goto" in found.stdout, found.stdout + found.stderr

    for pod in kubernetes.get("pods", *argv):
        eventually("the services are set", partial(are_listed, pod["metadata"]["name"]), pause=0.5)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubernetes]:
    folder = tmp_path_factory.mktemp("clusters")
    images = add_aliases(all_images(), folder / "images", f"v{VERSION}", "v1.37.2")
    with running_kubernetes(folder, controlplanes=3, workers=1, images=images) as kubernetes:
        yield kubernetes


def test_a_plan_of_a_release_has_the_pods_that_move(kubernetes: Kubernetes) -> None:
    argv = ("pods", "-n", "kube-system", "-l", "k8s-app=kube-dns")
    before = {pod["metadata"]["uid"] for pod in kubernetes.get(*argv)}
    result = kubernetes.cluster.talosctl("plan", "--image", "installer:v1.15.1", check=False)
    assert result.returncode == Exit.CHANGES, result.stderr
    assert result.stdout.count("kube-system/coredns-") == len(before)
    assert {pod["metadata"]["uid"] for pod in kubernetes.get(*argv)} == before


def test_a_plan_has_the_images_of_each_node(kubernetes: Kubernetes) -> None:
    cluster = kubernetes.cluster
    result = cluster.talosctl("plan", "--kubernetes", VERSION)
    assert "nothing to change\n" in result.stdout
    older = VERSION.rpartition(".")[0] + ".0"
    result = cluster.talosctl("plan", "--kubernetes", older, check=False)
    assert result.returncode == Exit.CHANGES, result.stderr
    for number, node in enumerate(cluster.nodes, 1):
        assert f"{number}. {node.address} ({node.name}), " in result.stdout
        assert f"kubelet:v{VERSION} -> " in result.stdout
    assert f"> update kube-apiserver: {VERSION} -> {older}" in result.stdout


@contextmanager
def watched(kubernetes: Kubernetes) -> Generator[list[str]]:
    """Call some API server all the time; the times at which none answered."""
    failures: list[str] = []
    stopped = threading.Event()
    servers = [f"https://{address}:6443" for address in kubernetes.cluster.addresses[:3]]

    def call() -> None:
        while not stopped.is_set():
            results = [
                kubernetes.kubectl("--server", server, "get", "--raw", "/readyz", check=False).stdout
                for server in servers
            ]
            if "ok" not in results:
                failures.append(str(results))
            stopped.wait(1)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield failures
    finally:
        stopped.set()
        thread.join()


@pytest.mark.soak
def test_a_cluster_is_upgraded_while_it_serves(three: Kubernetes) -> None:
    with watched(three) as failures:
        lines, _ = upgrade(three, "--to", "1.37.2", "--upgrade-kubelet=false", *OTHER_IMAGES)
        more, _ = upgrade(three, "--from", VERSION, "--to", VERSION, *OTHER_IMAGES[-2:])
    assert not failures, failures
    nodes = len(three.cluster.addresses)
    assert sum("successfully updated" in line for line in lines) == 9
    assert " > update kube-apiserver: 1.37.1 -> 1.37.2" in lines
    assert " < configured DaemonSet/kube-system/kube-proxy" in lines
    # Back to the first version, where the kubelets were all the time, now from another registry.
    assert sum("successfully updated" in line for line in more) == 9 + nodes
    eventually("every node is ready", three.check_nodes, pause=1)
    eventually("every pod is ready", three.check_pods, pause=1)
    for info in three.cluster.nodes:
        (spec,) = three.cluster.resource("-n", str(info.address), "kubeletspec")
        assert HOST in str(spec["spec"])
