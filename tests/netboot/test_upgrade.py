"""Three machines, the members of one etcd, are upgraded in turn, and one goes back; never are two away."""

import json
import time
import uuid
from collections.abc import Generator
from pathlib import Path

import pytest
from driver.accelerator import Accelerator
from tests.cluster.test_upgrade import ask, read_version
from tests.harness.availability import counting_away, writing_to_etcd
from tests.harness.cluster import Cluster, check_services, eventually, free_subnet, parse_table
from tests.harness.releases import Releases
from tests.netboot.test_machines import BUILD

from talos.provision.cluster import NodeInfo
from talos.provision.local import destroy_cluster
from talos.provision.progress import Silent
from talos.provision.qemu.programs import ROOT_VARIABLE
from talos.upgrade.release.signature import load_private

pytestmark = pytest.mark.soak
FIRST, NEXT = (BUILD.parent / "VERSION").read_text().strip(), "v1.15.1"
CREATE_TIMEOUT, UPGRADE_TIMEOUT, SETTLE_TIMEOUT = 1800.0, 3600.0, 600.0  # seconds
"""On emulated processors with ten others for each: until machines are installed, all upgrades, one change."""
CALL_TIMEOUT = 15.0  # seconds
"""For a connection and for a write, which takes as long to a machine that is off the network."""
ETCD_GAP = 60.0
"""Seconds without a write that succeeds, at most: an election, and the way past the one that is down."""


@pytest.fixture(scope="module")
def releases(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """Releases of the key that the ISO trusts."""
    key = BUILD / "keys/development.key"
    if not key.exists():
        pytest.skip(f"there is no {key}: make soak-vm makes it, and an ISO that trusts it")
    netboot = (BUILD / "netboot").resolve()
    return Releases(
        tmp_path_factory.mktemp("releases"),
        key=load_private(key),
        first=FIRST,
        machine={
            "vmlinuz": netboot / "vmlinuz",
            "initramfs": netboot / "initramfs",
            "cmdline": BUILD.parent / "kernel/cmdline",
        },
    )


@pytest.fixture
def machines(
    releases: Releases, root: Path, accelerator: Accelerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Cluster]:
    """Three machines that have installed themselves, without the images of Kubernetes."""
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    seconds = CREATE_TIMEOUT * accelerator.factor
    cluster = Cluster(f"t{uuid.uuid4().hex[:8]}", tmp_path / "clusters", tmp_path / "talosconfig")
    # A kernel that has to find out the rate of an emulated clock may be wrong by far on a busy host.
    install = {"disk": "/dev/vda", "extraKernelArgs": list(accelerator.arguments)}
    try:
        cluster.talosctl(
            *("cluster", "create", "qemu", "--name", cluster.name, "--state", str(cluster.directory)),
            *("--cidr", free_subnet(), "--controlplanes", "3", "--workers", "0", "--disks", "virtio:6GiB"),
            # On a busy host the second emulated processor's timer may never tick.
            *("--cpus-controlplanes", "1"),
            *("--iso-path", str((BUILD / "talos.iso").resolve()), "--images", str(releases.images)),
            *("--config-patch", "{apiVersion: v1alpha1, kind: UnattendedInstallConfig, $patch: delete}"),
            *("--config-patch", json.dumps({"machine": {"install": install}})),
            *("--wait-timeout", f"{seconds:.0f}s", "--talosconfig-destination", str(cluster.talosconfig)),
            seconds=seconds + 30,
        )
        eventually("etcd is bootstrapped", cluster.bootstrap, seconds=SETTLE_TIMEOUT)
        for address in cluster.addresses:
            eventually(
                f"{address} is well",
                lambda node=address: check_services(cluster, node),
                seconds=SETTLE_TIMEOUT,
            )
        yield cluster
    except BaseException:
        print(cluster.diagnose() if (cluster.directory / cluster.name).exists() else "")  # noqa: T201
        raise
    finally:
        destroy_cluster(cluster.name, cluster.directory, Silent(), talosconfig=str(cluster.talosconfig))


def check_blessed(cluster: Cluster, node: NodeInfo, version: str) -> None:
    """Assert that a machine runs a version of a slot, as its default."""
    assert read_version(cluster, node) == version
    state = json.loads(ask(cluster, node, "get", "metakeys", "0x40", "-o", "json"))["spec"]["value"]
    assert json.loads(state)["phase"] == "blessed", state


def check_members(cluster: Cluster) -> None:
    """Assert that every machine names the same three members of etcd, and that its services are healthy."""
    names = {node.name for node in cluster.nodes}
    for node in cluster.nodes:
        rows = parse_table(ask(cluster, node, "etcd", "members"))
        assert {(row["HOSTNAME"], row["LEARNER"]) for row in rows} == {(name, "false") for name in names}
        check_services(cluster, str(node.address))


def test_three_machines_are_upgraded_in_turn_and_one_goes_back(machines: Cluster, releases: Releases) -> None:
    nodes, image, everywhere = machines.nodes, releases.make(NEXT), ",".join(machines.addresses)
    for node in nodes:
        assert read_version(machines, node) == f"{FIRST} in A"
    with (
        writing_to_etcd(machines, nodes, timeout=CALL_TIMEOUT, pause=0.5) as gaps,
        counting_away(nodes, timeout=CALL_TIMEOUT, pause=0.2) as away,
    ):
        began = time.monotonic()
        command = ("-e", everywhere, "-n", everywhere, "upgrade", "--image", image)
        result = machines.talosctl(*command, seconds=UPGRADE_TIMEOUT)
        print(f"{result.stderr}{result.stdout}three machines in {time.monotonic() - began:.0f} s")  # noqa: T201
        for node in nodes:
            check_blessed(machines, node, f"{NEXT} in B")
        ask(machines, nodes[2], "rollback")
        eventually(
            "the third is back",
            lambda: check_blessed(machines, nodes[2], f"{FIRST} in A"),
            seconds=UPGRADE_TIMEOUT,
            pause=2,
        )
        eventually("all is well", lambda: check_members(machines), seconds=SETTLE_TIMEOUT, pause=2)
    print(f"etcd: {len(gaps)} writes, at most {max(gaps):.1f} s between two")  # noqa: T201
    print(f"away: {away.count(1)} of {len(away)} looks found one")  # noqa: T201
    assert max(away) == 1, f"{max(away)} machines were away at a time"
    assert max(gaps) < ETCD_GAP, f"etcd took no write for {max(gaps):.1f} s"
    assert [read_version(machines, node) for node in nodes] == [
        f"{NEXT} in B",
        f"{NEXT} in B",
        f"{FIRST} in A",
    ]
