"""What a node is in Kubernetes follows its config, and the State shows it."""

import zipfile
from pathlib import Path
from typing import Any

import yaml
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes

REFUSED = "node-role.kubernetes.io/storage"


def patch_worker(kubernetes: Kubernetes, patch: str) -> None:
    node = str(kubernetes.cluster.nodes[1].address)
    kubernetes.cluster.talosctl("-n", node, "patch", "machineconfig", "--patch", patch)


def get_worker(kubernetes: Kubernetes) -> dict[str, Any]:
    (node,) = kubernetes.get("node", kubernetes.cluster.nodes[1].name)
    return node["metadata"]


def test_a_worker_has_the_labels_of_its_config_and_loses_them_with_it(kubernetes: Kubernetes) -> None:
    kubernetes.kubectl("label", "node", kubernetes.cluster.nodes[1].name, "theirs=kept", "--overwrite")
    marks = f"labels: {{rack: r7, theirs: ours, {REFUSED}: ''}}, annotations: {{note: hi}}"
    patch_worker(kubernetes, f"{{apiVersion: v1alpha1, kind: KubeNodeConfig, {marks}}}")

    def check_set() -> None:
        metadata = get_worker(kubernetes)
        assert metadata["labels"].get("rack") == "r7"
        assert metadata["annotations"].get("note") == "hi"

    eventually("the labels and annotations of the config are set", check_set)
    labels = get_worker(kubernetes)["labels"]
    assert labels["theirs"] == "kept"
    assert REFUSED not in labels
    node = str(kubernetes.cluster.nodes[1].address)

    def check_refused() -> None:
        log = kubernetes.cluster.talosctl("-n", node, "logs", "kubed").stdout
        assert f"the label {REFUSED} is refused" in log

    eventually("the label that a kubelet may not set is named", check_refused)
    removed = "$patch: delete"
    gone = f"labels: {{rack: {{{removed}}}, theirs: {{{removed}}}, {REFUSED}: {{{removed}}}}}"
    patch_worker(
        kubernetes,
        f"{{apiVersion: v1alpha1, kind: KubeNodeConfig, {gone}, annotations: {{note: {{{removed}}}}}}}",
    )

    def check_gone() -> None:
        metadata = get_worker(kubernetes)
        assert "rack" not in metadata["labels"]
        assert "note" not in metadata["annotations"]

    eventually("what has left the config has left the node", check_gone)
    assert get_worker(kubernetes)["labels"]["theirs"] == "kept"


def test_the_state_shows_static_pods_kubelets_and_ready_machines(kubernetes: Kubernetes) -> None:
    control_plane, worker = kubernetes.cluster.nodes
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")

    def check() -> None:
        rows = kubernetes.cluster.rows("-n", str(control_plane.address), "get", "staticpodstatus")
        ready = {row["ID"]: row["READY"] for row in rows}
        assert ready == {f"kube-system/{name}-{control_plane.name}": "True" for name in names}
        for node in (control_plane, worker):
            argv = ("-n", str(node.address), "get")
            machines = [row["READY"] for row in kubernetes.cluster.rows(*argv, "machinestatus")]
            assert machines == ["true"], kubernetes.cluster.resource("machinestatus", *argv[:2])
            statuses = [(row["ID"], row["READY"]) for row in kubernetes.cluster.rows(*argv, "nodestatus")]
            assert statuses == [(node.name, "true")]
            kubelets = [row["IMAGE"] for row in kubernetes.cluster.rows(*argv, "kubeletstatus")]
            assert ["/kubelet:v1.37.1" in image for image in kubelets] == [True], kubelets

    eventually("the machines are ready", check)


def test_the_serving_certificate_of_a_kubelet_is_approved(kubernetes: Kubernetes) -> None:
    name = kubernetes.cluster.nodes[1].name
    patch_worker(
        kubernetes, "{apiVersion: v1alpha1, kind: KubeletConfig, config: {serverTLSBootstrap: true}}"
    )

    def check() -> None:
        requests = [
            request
            for request in kubernetes.get("csr")
            if request["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
        ]
        assert requests, "nothing is requested"
        for request in requests:
            assert request["spec"]["username"] == f"system:node:{name}"
            assert request["status"].get("certificate"), request["status"]

    eventually("the certificate is issued", check)
    eventually("the node is ready again", kubernetes.check_nodes, pause=0.5)

    def check_served() -> None:
        found = kubernetes.kubectl("get", "--raw", f"/api/v1/nodes/{name}/proxy/healthz", check=False)
        assert found.stdout == "ok", found.stderr

    # A kubelet that has requested its certificate serves nothing until it has fetched it.
    eventually("the kubelet serves with it", check_served, pause=0.5)


def test_a_support_bundle_has_kubernetes_parts(kubernetes: Kubernetes, tmp_path: Path) -> None:
    path, address = tmp_path / "support.zip", kubernetes.cluster.addresses[0]
    kubernetes.cluster.talosctl("-n", address, "support", "-O", str(path), "-w", "4")
    with zipfile.ZipFile(path) as bundle:
        nodes = yaml.safe_load(bundle.read("kubernetesResources/nodes.yaml"))
        names = {node["metadata"]["name"] for node in nodes["items"]}
        assert names == {node.name for node in kubernetes.cluster.nodes}
        pods = yaml.safe_load(bundle.read("kubernetesResources/systemPods.yaml"))
        assert any(pod["metadata"]["name"].startswith("kube-apiserver-") for pod in pods["items"])
        # There is one more of each time that the program was started again.
        logs = [name for name in bundle.namelist() if "kubernetes-logs/kube-system/kube-scheduler-" in name]
        assert any(bundle.read(log) for log in logs), bundle.namelist()
