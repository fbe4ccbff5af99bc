"""Machines with our kernel on one LAN are a cluster of Kubernetes."""

import uuid
from pathlib import Path

import pytest
from driver.accelerator import Accelerator
from driver.scenarios import add_kernel_arguments
from tests.harness.cluster import Cluster, free_subnet
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.nfs import check_nfs
from tests.kubernetes.objects import make_pod
from tests.kubernetes.policies import check_enforced
from tests.kubernetes.workloads.manifests import link_workloads
from tests.netboot.test_machines import BUILD

from talos.provision.local import destroy_cluster
from talos.provision.progress import NoProgress
from talos.provision.qemu.programs import ROOT_VARIABLE

pytestmark = pytest.mark.soak
CREATE_TIMEOUT = 1500.0
"""On emulated processors, until every node is ready: thirteen minutes on two that nothing else uses."""
LIST_PROCESSES = "cat /proc/[0-9]*/comm"
NETWORK_POLICIES = "{apiVersion: v1alpha1, kind: KubeFlannelCNIConfig, kubeNetworkPoliciesEnabled: true}"
VOLUME = """apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
provisioning: {diskSelector: {match: disk.transport == "nvme"}, minSize: 500MiB}
"""


def keep_a_file(kubernetes: Kubernetes) -> None:
    """Have a pod write to a volume of the user's, on a disk of its own; the kubelet waits for its folder."""
    worker, cluster = kubernetes.cluster.nodes[-1], kubernetes.cluster
    cluster.talosctl("-n", str(worker.address), "patch", "machineconfig", "--patch", VOLUME)
    pod = make_pod(
        "keeper",
        "grep /data /proc/mounts && echo kept > /data/file",
        node=worker.name,
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
        securityContext={"runAsUser": 0},
    )
    pod["spec"]["volumes"] = [{"name": "data", "hostPath": {"path": "/var/mnt/data", "type": "Directory"}}]
    kubernetes.kubectl("label", "namespace", "default", "pod-security.kubernetes.io/enforce=privileged")
    kubernetes.apply(pod)
    kubernetes.wait_for("pod/keeper", "jsonpath={.status.phase}=Succeeded")
    assert cluster.talosctl("-n", str(worker.address), "read", "/var/mnt/data/file").stdout == "kept\n"
    assert "/dev/nvme0n1p1 " in kubernetes.kubectl("logs", "keeper").stdout


def check_isolation(kubernetes: Kubernetes) -> None:
    """A pod that sees its node's processes sees those of workloads only; the node sees it from outside."""
    worker, cluster = kubernetes.cluster.nodes[-1], kubernetes.cluster
    pod = make_pod("observer", f"{LIST_PROCESSES}; exec sleep 600", node=worker.name)
    pod["spec"]["hostPID"] = True
    kubernetes.apply(pod)
    kubernetes.wait_for("pod/observer", "condition=Ready")
    seen = set(kubernetes.kubectl("logs", "observer").stdout.split())
    assert {"sandboxd", "containerd", "kubelet", "sleep"} <= seen, seen
    assert not seen & {"machined", "apid", "networkd", "zygote"}, seen
    target = ("-n", str(worker.address))
    rows = cluster.rows(*target, "containers", "-k")
    (pid,) = [row["PID"] for row in rows if "default/observer:main" in row["ID"]]
    status = cluster.talosctl(*target, "read", f"/proc/{pid}/status").stdout
    assert "Name:\tsleep\n" in status
    (pids,) = [line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")]
    assert len(pids) == 2, pids
    assert pids[0] == pid


def check_policies(kubernetes: Kubernetes) -> None:
    """The kernel of machines has the queues with which policies are enforced."""
    for address in kubernetes.cluster.addresses:
        rows = kubernetes.cluster.rows("-n", address, "get", "diagnostics")
        assert "network-policies" not in {row["ID"] for row in rows}, rows
    check_enforced(kubernetes)


def test_machines_are_nodes_of_kubernetes(
    root: Path, accelerator: Accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    seconds = CREATE_TIMEOUT * accelerator.factor
    patches = add_kernel_arguments(accelerator.arguments)
    cluster = Cluster(f"t{uuid.uuid4().hex[:8]}", tmp_path / "clusters", tmp_path / "talosconfig")
    kubernetes = Kubernetes(cluster, tmp_path / "kubeconfig")
    place = ("--name", cluster.name, "--state", str(cluster.directory))
    try:
        cluster.talosctl(
            *("cluster", "create", "qemu", *place, "--cidr", free_subnet()),
            *("--images", str(link_workloads(tmp_path)), "--config-patch-controlplanes", NETWORK_POLICIES),
            *("--iso-path", str((BUILD / "talos.iso").resolve()), "--memory-controlplanes", "3GiB"),
            *("--disks", "virtio:8GiB,nvme:1GiB"),
            *(word for patch in patches for word in ("--config-patch", patch)),
            *("--wait-timeout", f"{seconds:.0f}s", "--talosconfig-destination", str(cluster.talosconfig)),
            seconds=seconds + 30,
        )
        nodes = kubernetes.get("nodes")
        assert {node["metadata"]["name"] for node in nodes} == {node.name for node in cluster.nodes}
        for node in nodes:
            info = node["status"]["nodeInfo"]
            assert info["kernelVersion"].endswith("-talos"), info
        for address in cluster.addresses:
            mounts = cluster.talosctl("-n", address, "read", "/proc/mounts").stdout
            assert "cgroup2 /sys/fs/cgroup" in mounts
        # It is ready once it reaches the API by the address of a service, wherever its pods run.
        kubernetes.kubectl(
            *("rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=300s"), seconds=310
        )
        kubernetes.check_pods()
        check_policies(kubernetes)
        check_nfs(kubernetes)
        keep_a_file(kubernetes)
        check_isolation(kubernetes)
    except BaseException:
        print(cluster.diagnose() if (cluster.directory / cluster.name).exists() else "")  # noqa: T201
        raise
    finally:
        destroy_cluster(cluster.name, cluster.directory, NoProgress(), talosconfig=str(cluster.talosconfig))
