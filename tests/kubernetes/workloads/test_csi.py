"""A CSI driver with the sidecars of Kubernetes' own project: volumes, snapshots, sizes."""

from typing import Any

import pytest
from tests.harness.cluster import eventually
from tests.harness.kubernetes import ROLLOUT_TIMEOUT, Kubernetes
from tests.kubernetes.objects import SLEEP, make_container, make_deployment, make_head, make_pod
from tests.kubernetes.workloads.manifests import (
    built_workloads,
    make_claim,
    make_namespace,
    read_manifest,
    run_with_claim,
    tag_of,
    with_claim,
)

pytestmark = pytest.mark.soak

DRIVER, NAMESPACE, CLASS = "csi.example.org", "csi", "csi"
KUBELET = "/var/lib/kubelet"
SIDECARS = ("csi-attacher", "csi-provisioner", "csi-resizer", "csi-snapshotter")
ACCOUNT = {"kind": "ServiceAccount", "name": "driver", "namespace": NAMESPACE}
SNAPSHOTS = "snapshot.storage.k8s.io/v1"
REBOOT = 240.0  # seconds


def read_rights() -> list[dict[str, Any]]:
    """What the sidecars may do, given to one account, as they are in one pod."""
    found = [
        rule
        for name in ("attacher", "provisioner", "resizer", "snapshotter")
        for rule in read_manifest(f"{name}-rbac")
        if rule["kind"] != "ServiceAccount"
    ]
    for rule in found:
        if rule["kind"] in {"Role", "RoleBinding"}:
            rule["metadata"]["namespace"] = NAMESPACE
        if rule["kind"].endswith("Binding"):
            rule["subjects"] = [ACCOUNT]
    return found


def make_driver(node: str) -> dict[str, Any]:
    """The driver on a node, with its sidecars: the paths are those that CSI's documentation names."""
    folders = {
        "socket": f"{KUBELET}/plugins/{DRIVER}",
        "registration": f"{KUBELET}/plugins_registry",
        "kubelet": KUBELET,
        "data": "/var/lib/csi-driver",
    }
    driver = {
        "name": "driver",
        "image": "registry.example.org/csi-driver:1.0.0",
        "args": [DRIVER],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "securityContext": {"privileged": True},
        "volumeMounts": [
            {"name": "socket", "mountPath": "/csi"},
            {"name": "registration", "mountPath": "/registration"},
            {"name": "kubelet", "mountPath": KUBELET, "mountPropagation": "Bidirectional"},
            {"name": "data", "mountPath": "/data"},
        ],
    }
    sidecars = [
        {
            "name": name,
            "image": f"registry.k8s.io/sig-storage/{name}:{tag_of(name)}",
            "args": ["--csi-address=/csi/csi.sock", "--v=5"],
            "volumeMounts": [{"name": "socket", "mountPath": "/csi"}],
        }
        for name in SIDECARS
    ]
    spec = {
        "serviceAccountName": ACCOUNT["name"],
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [driver, *sidecars],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
            for name, path in folders.items()
        ],
    }
    labels = {"app": "driver"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    head = make_head("DaemonSet", "driver", version="apps/v1", namespace=NAMESPACE)
    return {**head, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def install(kubernetes: Kubernetes, node: str) -> None:
    """Apply all that the documentation of CSI drivers names."""
    definitions = [
        found for path in built_workloads().glob("crd-*.yaml") for found in read_manifest(path.stem)
    ]
    kubernetes.apply(*definitions)
    for definition in definitions:
        kubernetes.wait_for(f"crd/{definition['metadata']['name']}", "condition=Established")
    (controller,) = read_manifest("snapshot-controller")
    (container,) = controller["spec"]["template"]["spec"]["containers"]
    container["image"] = f"registry.k8s.io/sig-storage/snapshot-controller:{tag_of('snapshot-controller')}"
    kubernetes.apply(*read_manifest("snapshot-controller-rbac"), controller)
    kubernetes.apply(make_namespace(NAMESPACE))
    kubernetes.apply(
        make_head(**ACCOUNT),
        *read_rights(),
        {
            **make_head("CSIDriver", DRIVER, version="storage.k8s.io/v1"),
            "spec": {"attachRequired": True, "fsGroupPolicy": "File"},
        },
        {
            **make_head("StorageClass", CLASS, version="storage.k8s.io/v1"),
            "provisioner": DRIVER,
            "allowVolumeExpansion": True,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            **make_head("VolumeSnapshotClass", CLASS, version=SNAPSHOTS),
            "driver": DRIVER,
            "deletionPolicy": "Delete",
        },
        make_driver(node),
    )

    def is_registered() -> None:
        (found,) = kubernetes.get("csinode", node)
        assert [driver["name"] for driver in found["spec"].get("drivers") or ()] == [DRIVER]

    eventually("the kubelet has the driver", is_registered, seconds=ROLLOUT_TIMEOUT, pause=0.5)


def worker_of(kubernetes: Kubernetes) -> str:
    """The node with the driver."""
    return kubernetes.cluster.nodes[1].name


def run(kubernetes: Kubernetes, name: str, claim: str, command: str) -> str:
    """What a command writes, in a pod that has the volume of a claim."""
    return run_with_claim(kubernetes, make_pod(name, command), claim, worker_of(kubernetes))


@pytest.fixture(scope="module", autouse=True)
def driver(workloads: Kubernetes) -> None:
    """The driver, on the worker."""
    install(workloads, worker_of(workloads))


def test_a_volume_is_written_and_restored_from_its_snapshot(workloads: Kubernetes) -> None:
    workloads.apply(make_claim("first", CLASS))
    assert run(workloads, "writes", "first", "echo kept > /data/file; cat /data/file") == "kept\n"
    source = {"persistentVolumeClaimName": "first"}
    spec = {"volumeSnapshotClassName": CLASS, "source": source}
    workloads.apply({**make_head("VolumeSnapshot", "taken", version=SNAPSHOTS), "spec": spec})
    workloads.wait_for("volumesnapshot/taken", "jsonpath={.status.readyToUse}=true")
    run(workloads, "changes", "first", "echo changed > /data/file")
    taken = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "taken"}
    workloads.apply(make_claim("second", CLASS, dataSource=taken))
    assert run(workloads, "restored", "second", "cat /data/file") == "kept\n"
    assert run(workloads, "reads", "first", "cat /data/file") == "changed\n"
    workloads.delete("volumesnapshot/taken", "pvc/first", "pvc/second", wait=True)
    check_removed(workloads)


def test_a_volume_grows_in_use_and_outlives_a_restart_of_its_node(workloads: Kubernetes) -> None:
    worker = workloads.cluster.nodes[1]
    workloads.apply(make_claim("third", CLASS))
    deployment = make_deployment("open", 1, make_container(f"echo started >> /data/log; {SLEEP}"))
    with_claim(deployment["spec"]["template"], "third", worker.name)
    workloads.apply(deployment)
    workloads.roll_out("open")
    size = '{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}'
    workloads.kubectl("patch", "pvc", "third", "--patch", size)
    workloads.wait_for("pvc/third", "jsonpath={.status.capacity.storage}=2Gi")
    argv = ("-n", str(worker.address), "reboot", "--wait", "--timeout", f"{REBOOT:.0f}s")
    workloads.cluster.talosctl(*argv, seconds=REBOOT)

    def is_started_again() -> None:
        found = workloads.kubectl("exec", "deployment/open", "--", "cat", "/data/log", check=False)
        assert found.stdout.split() == ["started"] * 2, found

    eventually("the pod has its volume again", is_started_again, seconds=REBOOT, pause=1)
    workloads.delete("deployment/open", "pvc/third", wait=True)
    check_removed(workloads)


def check_removed(kubernetes: Kubernetes) -> None:
    """Wait until no volume of the driver is there, nor attached."""

    def check() -> None:
        volumes = [one["spec"].get("csi", {}).get("driver") for one in kubernetes.get("pv")]
        assert DRIVER not in volumes, volumes
        assert not kubernetes.get("volumeattachments")

    eventually("the volumes have gone with their claims", check, seconds=ROLLOUT_TIMEOUT, pause=1)
