"""The documents about the control plane do what they describe, and its mistakes are named where one looks."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from tests.harness.cluster import check_services, eventually
from tests.harness.etcd import open_keys
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import make_head, make_pod_spec

from talos.kubernetes.access import parse_kubeconfig
from talos.kubernetes.client import KubernetesClient

AUDIT = "var/log/audit/kube"
CHANGE_TIMEOUT = 240.0
"""For the kubelet to replace an API server: it gives up calling the one that is gone after a minute."""
REQUESTS = 100
"""At once, by ten threads: a record of each has about a kilobyte."""


def patch(kubernetes: Kubernetes, *documents: Mapping[str, object]) -> None:
    """Change the control plane node's config."""
    text = "\n---\n".join(json.dumps({"apiVersion": "v1alpha1", **document}) for document in documents)
    node = kubernetes.cluster.addresses[0]
    kubernetes.cluster.talosctl("-n", node, "patch", "machineconfig", "--patch", text)


def refuse(kubernetes: Kubernetes, document: dict[str, object]) -> str:
    """The error of a change that is refused."""
    text = json.dumps({"apiVersion": "v1alpha1", **document})
    argv = ("-n", kubernetes.cluster.addresses[0], "patch", "machineconfig", "--patch", text)
    result = kubernetes.cluster.talosctl(*argv, check=False)
    assert result.returncode, "it is taken"
    return result.stderr.strip()


def test_a_secret_is_encrypted_in_etcd(kubernetes: Kubernetes) -> None:
    kubernetes.apply({**make_head("Secret", "sealed"), "stringData": {"password": "open-sesame"}})
    kubernetes.apply({**make_head("ConfigMap", "plain"), "data": {"word": "open-sesame"}})
    with open_keys(kubernetes.cluster, kubernetes.cluster.nodes[0]) as keys:
        sealed = keys.read_value("/registry/secrets/default/sealed")
        plain = keys.read_value("/registry/configmaps/default/plain")
    assert sealed.startswith(b"k8s:enc:secretbox:v1:"), sealed[:30]
    assert b"open-sesame" not in sealed
    assert b"open-sesame" in plain
    kubernetes.delete("secret/sealed", "configmap/plain")


def test_requests_are_recorded_by_the_policy(kubernetes: Kubernetes) -> None:
    kubernetes.apply({**make_head("Secret", "recorded"), "stringData": {"password": "open-sesame"}})
    log = kubernetes.cluster.root() / AUDIT / "kube-apiserver.log"

    def check() -> None:
        # What follows the last line's end is still being written.
        written = log.read_text(encoding="utf-8").rpartition("\n")[0]
        lines = [line for line in written.splitlines() if '"recorded"' in line]
        assert lines, "no record of it"
        event = json.loads(lines[-1])
        assert event["level"] == "Metadata"
        assert event["objectRef"]["name"] == "recorded"
        assert not any("open-sesame" in line for line in lines), "secrets are recorded"

    eventually("the request is recorded", check, pause=0.2)
    status = log.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (65534, 0o600)
    kubernetes.delete("secret/recorded")


def test_what_can_not_work_is_refused_with_its_place(kubernetes: Kubernetes) -> None:
    image = "registry.k8s.io/kube-apiserver:v1.20.0"
    text = refuse(kubernetes, {"kind": "KubeAPIServerConfig", "image": image})
    assert "KubeAPIServerConfig image: version of Kubernetes 1.20 is too old to be used" in text
    text = refuse(kubernetes, {"kind": "KubeletConfig", "image": "ghcr.io/siderolabs/kubelet:v1.33.1"})
    assert "KubeletConfig image: the kubelet 1.33 does not work with kube-apiserver 1.37" in text
    text = refuse(kubernetes, {"kind": "KubeNetworkConfig", "podSubnets": ["10.96.0.0/16"]})
    assert "KubeNetworkConfig serviceSubnets: " in text
    assert "overlaps with the pods'" in text
    text = refuse(kubernetes, {"kind": "KubeAuthorizerConfig", "name": "hook", "type": "Webhook"})
    assert "KubeAuthorizerConfig/hook webhook: is missing" in text
    assert "Traceback" not in text


def read_state(kubernetes: Kubernetes, pod: str = "kube-system/kube-apiserver") -> str:
    """A static pod as the node shows it: the API server's, unless another is named."""
    node = kubernetes.cluster.nodes[0].name
    (status,) = kubernetes.cluster.resource("staticpodstatus", f"{pod}-{node}")
    return str(status["spec"])


def test_a_static_pod_that_is_not_valid_keeps_the_kubelet_from_that_one_alone(kubernetes: Kubernetes) -> None:
    """One that it can't run, for its image, shows why."""
    node, image = kubernetes.cluster.addresses[0], "127.0.0.1:1/no-such:1"
    container = {"name": "main", "image": image}
    specs = {
        "invalid": {"containers": [container, container]},  # two of one name
        "unlabelled": make_pod_spec(container),
        "unpulled": make_pod_spec(container),
    }
    heads = {name: make_head("Pod", name) for name in specs}
    heads["unlabelled"]["metadata"]["labels"] = {"app": "no label!"}
    documents = [
        {"kind": "KubeStaticPodConfig", "name": name, "pod": {**heads[name], "spec": spec}}
        for name, spec in specs.items()
    ]
    patch(kubernetes, *documents)

    def is_shown() -> None:
        rows = kubernetes.cluster.rows("-n", node, "get", "staticpodstatus")
        shown = [row["ID"] for row in rows if row["ID"].startswith("default/")]
        assert shown == [f"default/unpulled-{kubernetes.cluster.nodes[0].name}"], rows
        state = read_state(kubernetes, "default/unpulled")
        # The kubelet reports the one or the other, depending on when it is called.
        assert "ErrImagePull" in state or "ImagePullBackOff" in state, state
        assert image in state, state

    def is_named() -> None:
        machine = str(kubernetes.cluster.resource("machinestatus", "-n", node))
        for name in ("invalid", "unlabelled"):
            assert f'pod "default/{name}-{kubernetes.cluster.nodes[0].name}" is not running' in machine

    eventually("its state is a resource", is_shown, seconds=CHANGE_TIMEOUT, pause=0.5)
    eventually("those that don't run are named", is_named, seconds=CHANGE_TIMEOUT, pause=0.5)
    check_services(kubernetes.cluster, node)
    # After its start the kubelet has nothing but what it reads then.
    kubernetes.cluster.talosctl("-n", node, "service", "kubelet", "restart")
    eventually("its state is a resource again", is_shown, seconds=CHANGE_TIMEOUT, pause=0.5)
    eventually("all is well", kubernetes.check_pods, seconds=CHANGE_TIMEOUT, pause=0.5)
    patch(kubernetes, *({"kind": one["kind"], "name": one["name"], "$patch": "delete"} for one in documents))

    def is_gone() -> None:
        rows = kubernetes.cluster.rows("-n", node, "get", "staticpodstatus")
        assert not any(row["ID"].startswith("default/") for row in rows), rows

    eventually("it is gone", is_gone, seconds=CHANGE_TIMEOUT, pause=0.5)


@pytest.mark.soak
def test_an_api_server_that_does_not_start_says_why(kubernetes: Kubernetes) -> None:
    """Slow: for minutes the kubelet waits longer before it starts what ended for lack of the API."""
    cluster, node = kubernetes.cluster, kubernetes.cluster.addresses[0]
    patch(kubernetes, {"kind": "KubeAPIServerConfig", "extraArgs": {"no-such-flag": ["1"]}})

    def is_shown() -> None:
        assert "CrashLoopBackOff" in read_state(kubernetes)

    eventually("its state is a resource", is_shown, seconds=CHANGE_TIMEOUT, pause=1)

    def is_logged() -> None:
        rows = cluster.rows("-n", node, "containers", "-k")
        names = [row["ID"].removeprefix("└─ ") for row in rows if ":kube-apiserver:" in row["ID"]]
        logs = [cluster.talosctl("-n", node, "logs", "-k", name, check=False).stdout for name in names]
        assert any("unknown flag: --no-such-flag" in text for text in logs), logs

    eventually("the reason is in its log", is_logged, seconds=CHANGE_TIMEOUT, pause=1)
    check_services(cluster, node)
    removal = {"no-such-flag": {"$patch": "delete"}}
    patch(kubernetes, {"kind": "KubeAPIServerConfig", "extraArgs": removal})
    eventually("all is well", kubernetes.check_pods, seconds=CHANGE_TIMEOUT, pause=1)
    eventually("every node is ready", kubernetes.check_nodes, seconds=CHANGE_TIMEOUT, pause=1)


@pytest.mark.soak
def test_the_records_of_requests_are_put_aside(kubernetes: Kubernetes) -> None:
    patch(kubernetes, {"kind": "KubeAPIServerConfig", "extraArgs": {"audit-log-maxsize": ["1"]}})

    def is_replaced() -> None:
        (pod,) = kubernetes.get("pods", "-n", "kube-system", "--selector", "k8s-app=kube-apiserver")
        assert "--audit-log-maxsize=1" in pod["spec"]["containers"][0]["command"]
        kubernetes.check_pods()

    eventually("the API server has the new size", is_replaced, seconds=CHANGE_TIMEOUT, pause=1)
    client = KubernetesClient(parse_kubeconfig(kubernetes.read_kubeconfig()))
    folder = kubernetes.cluster.root() / AUDIT
    call = partial(client.call_now, "GET", "/api/v1/namespaces/kube-system")

    def is_rotated() -> None:
        with ThreadPoolExecutor(10) as pool:
            for answer in [pool.submit(call) for _ in range(REQUESTS)]:
                answer.result()
        assert len(list(folder.iterdir())) > 1

    eventually("a record is put aside", is_rotated, seconds=CHANGE_TIMEOUT)
    patch(
        kubernetes, {"kind": "KubeAPIServerConfig", "extraArgs": {"audit-log-maxsize": {"$patch": "delete"}}}
    )
    eventually("all is well", kubernetes.check_pods, seconds=CHANGE_TIMEOUT, pause=1)
