"""Machines with our kernel on one LAN are a cluster of Kubernetes."""

import uuid
from pathlib import Path

import pytest
from driver.accelerator import Accelerator
from tests.harness.cluster import Cluster, free_subnet
from tests.harness.kubernetes import Kubernetes, all_images
from tests.netboot.test_machines import BUILD

from talos.provision.local import destroy_cluster
from talos.provision.progress import Silent
from talos.provision.qemu.programs import ROOT_VARIABLE

pytestmark = pytest.mark.soak
CREATE_SECONDS = 780.0
"""On emulated processors, until every node is ready: six minutes on a machine that others use."""


def test_machines_are_nodes_of_kubernetes(
    root: Path, accelerator: Accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    seconds = CREATE_SECONDS * accelerator.factor
    cluster = Cluster(f"t{uuid.uuid4().hex[:8]}", tmp_path / "clusters", tmp_path / "talosconfig")
    kubernetes = Kubernetes(cluster, tmp_path / "kubeconfig")
    place = ("--name", cluster.name, "--state", str(cluster.directory))
    try:
        cluster.talosctl(
            *("cluster", "create", "qemu", *place, "--cidr", free_subnet(), "--images", str(all_images())),
            *("--iso-path", str((BUILD / "talos.iso").resolve()), "--memory-controlplanes", "3GiB"),
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
    except BaseException:
        print(cluster.diagnose() if (cluster.directory / cluster.name).exists() else "")  # noqa: T201
        raise
    finally:
        destroy_cluster(cluster.name, cluster.directory, Silent(), talosconfig=str(cluster.talosconfig))
