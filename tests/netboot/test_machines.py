"""A cluster of virtual machines, made as a person makes one: from the ISO to the installed system."""

import uuid
from pathlib import Path

import pytest
from driver.accelerator import Accelerator
from driver.scenarios import add_kernel_arguments
from tests.harness.cluster import KUBELET, Cluster, eventually, free_subnet

from talos.provision.local import destroy_cluster
from talos.provision.progress import NoProgress
from talos.provision.qemu.programs import ROOT_VARIABLE

pytestmark = pytest.mark.soak
BUILD = Path(__file__).parents[2] / "build"
CREATE_TIMEOUT, BOOT_TIMEOUT = 900.0, 300.0  # seconds
"""On emulated processors that others use, too; the first until the system is installed and runs."""


@pytest.fixture
def iso() -> Path:
    path = BUILD / "talos.iso"
    if not path.exists():
        pytest.skip(f"there is no {path}: make netboot-tests builds it")
    return path.resolve()


def check_services(cluster: Cluster) -> None:
    for name, row in cluster.services().items():
        assert name == KUBELET or row["STATE"] in {"Running", "Skipped"}, f"{name}: {row}"
    assert "apid" in cluster.services()


def test_machines_install_themselves_and_keep_their_disks(
    root: Path, iso: Path, accelerator: Accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    seconds = CREATE_TIMEOUT * accelerator.factor
    cluster = Cluster(f"t{uuid.uuid4().hex[:8]}", tmp_path / "clusters", tmp_path / "talosconfig")
    place = ("--name", cluster.name, "--state", str(cluster.directory))
    patches = add_kernel_arguments(accelerator.arguments)
    try:
        cluster.talosctl(
            *("cluster", "create", "qemu", *place, "--cidr", free_subnet(), "--iso-path", str(iso)),
            *("--images", str(BUILD / "images")),
            *(word for patch in patches for word in ("--config-patch", patch)),
            *("--workers", "0", "--disks", "virtio:6GiB,nvme:1GiB", "--wait-timeout", f"{seconds:.0f}s"),
            *("--talosconfig-destination", str(cluster.talosconfig)),
            seconds=seconds + 30,
        )
        (node,) = cluster.nodes
        assert [row["HOSTNAME"] for row in cluster.rows("get", "hostname")] == [node.name]
        disks = {row["ID"]: row["SERIAL"] for row in cluster.rows("get", "disks")}
        assert disks["vda"] == "disk0"
        assert disks["nvme0n1"] == "disk1"
        assert {row["FILESYSTEM"] for row in cluster.rows("df")} >= {"/dev/vda6"}
        first = boot_id(cluster)
        # A machine that is switched off and on starts from its disk, with its config.
        cluster.talosctl("cluster", "reboot", *place)
        limit = BOOT_TIMEOUT * accelerator.factor
        eventually("it is another boot", lambda: check_rebooted(cluster, first), seconds=limit, pause=1)
        eventually("its services run", lambda: check_services(cluster), seconds=limit, pause=1)
    except BaseException:
        print(cluster.diagnose() if (cluster.directory / cluster.name).exists() else "")  # noqa: T201
        raise
    finally:
        destroy_cluster(cluster.name, cluster.directory, NoProgress(), talosconfig=str(cluster.talosconfig))
    assert not (cluster.directory / cluster.name).exists()


def boot_id(cluster: Cluster) -> str:
    return cluster.talosctl("read", "/proc/sys/kernel/random/boot_id").stdout.strip()


def check_rebooted(cluster: Cluster, first: str) -> None:
    assert boot_id(cluster) != first
