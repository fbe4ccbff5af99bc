"""docs/moving-from-talos.md on containers: every node of a cluster is replaced, with the configs that it had.

The old nodes are ours under an older version, with configs of its layout: what is tried is the order of the
steps, and that the cluster stays one. MOVING_SEED repeats an order of calls.
"""

import os
import random
import re
import shutil
import sys
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster.faults.workload import read_at_all_members, running_workload
from tests.harness.cluster import Cluster, check_services, eventually, image
from tests.harness.releases import Releases
from tests.harness.subnets import free_subnet

from talos.config.talosconfig.places import save
from talos.provision import provider
from talos.provision.cluster import NodeInfo, NodeState, Role
from talos.provision.configs import ConfigOptions, generate_configs
from talos.provision.host.checks import tool_path
from talos.provision.local import destroy_cluster, reboot_node
from talos.provision.plan import ClusterOptions, make_request
from talos.provision.progress import NoProgress
from talos.provision.store import ClusterFolder, write_private
from talos.system.process import run_command
from talos.upgrade.slots.folder import SlotFolder

OLD, NEW = "v1.13.5", "v1.15.0"
SEED = int(os.environ.get("MOVING_SEED") or random.randrange(1 << 32))
CALL_INTERVALS = (0.2, 1.0)
"""Seconds between two calls of a client of etcd, at least and at most."""
MOVED = 300.0
"""Seconds for a node to end, to come up empty, to pull its images and to be a member."""
MIN_WRITES = 20
"""Acknowledged writes below which a run has shown nothing."""

pytestmark = pytest.mark.soak


@contextmanager
def old_cluster(folder: Path, releases: Releases) -> Generator[Cluster]:
    """A cluster whose nodes were given their configs as machines are: in maintenance mode."""
    chosen = ClusterOptions(
        name=f"t{uuid.uuid4().hex[:8]}",
        subnet=free_subnet(),
        controlplanes=3,
        workers=1,
        image=image(),
        stamp=releases.stamp(OLD),
        images=releases.images,
    )
    request = make_request(chosen)
    generated = generate_configs(request, ConfigOptions(contract=(1, 13)))
    cluster = Cluster(chosen.name, folder, folder / "talosconfig")
    save(generated.talosconfig, cluster.talosconfig)
    try:
        provider.create(request, folder, NoProgress())
        write_private(ClusterFolder(folder.resolve() / chosen.name).secrets, generated.secrets)
        for node, wanted in zip(cluster.nodes, generated.request.nodes, strict=True):
            config = folder / f"{node.name}-first.yaml"
            config.write_text(wanted.config, encoding="utf-8")
            apply_config(cluster, node, config)
        eventually("etcd is bootstrapped", cluster.bootstrap)
        for address in cluster.addresses:
            eventually(f"{address} is up", lambda node=address: check_services(cluster, node), seconds=MOVED)
        yield cluster
    finally:
        destroy_cluster(chosen.name, folder, NoProgress(), talosconfig=str(cluster.talosconfig))


@pytest.fixture(scope="module")
def cluster(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with old_cluster(tmp_path_factory.mktemp("clusters"), releases) as running:
        yield running


def apply_config(cluster: Cluster, node: NodeInfo, config: Path) -> None:
    """Give a node in maintenance mode its config, with the fingerprint that its console shows."""

    def read_fingerprint() -> str:
        text = node.console.read_text(encoding="utf-8", errors="replace")
        found = re.findall(r"--cert-fingerprint (\S+) --file", text)
        assert found, text[-2000:]
        return found[-1]

    fingerprint = eventually(f"{node.name} is in maintenance", read_fingerprint)
    insecure = ("apply-config", "--insecure", "-n", str(node.address))
    argv = (*insecure, "--cert-fingerprint", fingerprint, "--file", str(config))
    cluster.talosctl(*argv, "--dry-run")
    cluster.talosctl(*argv)


def replace_machine(cluster: Cluster, node: NodeInfo, stamp: Path) -> None:
    """Another machine at the same address: empty disks, and a medium that starts what ``stamp`` names."""

    def is_off() -> None:
        state = next(one.state for one in cluster.nodes if one.name == node.name)
        assert state is NodeState.STOPPED, state

    eventually(f"{node.name} is off", is_off, seconds=MOVED)
    folder = ClusterFolder(cluster.info.directory)
    for path in folder.state_partition(node.name).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(folder.slots(node.name))
    SlotFolder(folder.slots(node.name)).create(stamp)
    node.console.write_bytes(b"")
    disk = str(folder.disk(node.name))
    loops = run_command(["losetup", "--associated", disk, "--noheadings", "--output", "NAME"]).stdout
    program = shutil.which("mkfs.xfs", path=tool_path()) or "mkfs.xfs"
    make = [program, "-q", "-f", "-L", "EPHEMERAL", loops.strip()]

    def is_made() -> None:
        # The kernel takes the node's mounts apart a little later than its last process.
        result = run_command(make, check=False)
        assert result.returncode == 0, result.stderr

    eventually("the disk is empty", is_made)
    reboot_node(cluster.name, cluster.directory, [node.name])


def etcd_names(cluster: Cluster, other: NodeInfo) -> set[str]:
    """The members by a node, all of which vote."""
    rows = cluster.rows("-e", str(other.address), "-n", str(other.address), "etcd", "members")
    assert all(row["LEARNER"] == "false" for row in rows), rows
    return {row["HOSTNAME"] for row in rows}


def move(cluster: Cluster, node: NodeInfo, config: Path, releases: Releases, version: str) -> None:
    """The steps of the page for a node, until the next one may follow; Kubernetes has tests of its own."""
    name, address, began = node.name, str(node.address), time.monotonic()
    other = next(one for one in cluster.nodes if one.name != name and one.role is Role.CONTROL_PLANE)
    before = etcd_names(cluster, other)
    cluster.talosctl("-n", address, "reset", "--wait=false")
    replace_machine(cluster, node, releases.stamp(version))
    assert etcd_names(cluster, other) == before - {name}
    apply_config(cluster, node, config)
    eventually(f"{name} is up", lambda: check_services(cluster, address), seconds=MOVED)

    def is_member() -> None:
        assert etcd_names(cluster, other) == before
        rows = cluster.rows("-n", str(other.address), "get", "members")
        systems = {row["HOSTNAME"]: row["OS"] for row in rows}
        assert systems.keys() == {one.name for one in cluster.nodes}
        assert version in systems[name], systems

    eventually(f"{name} is a member again", is_member, seconds=MOVED, pause=1)
    sys.stdout.write(f"{name} runs {version} after {time.monotonic() - began:.0f} s\n")


def test_every_node_is_replaced_and_nothing_is_lost(
    cluster: Cluster, releases: Releases, tmp_path: Path
) -> None:
    *control_plane, worker = cluster.nodes
    configs = {node.name: tmp_path / f"{node.name}.yaml" for node in cluster.nodes}
    for node in cluster.nodes:
        argv = ("-n", str(node.address), "get", "machineconfig", "v1alpha1", "-o", "jsonpath={.spec}")
        configs[node.name].write_text(cluster.talosctl(*argv).stdout, encoding="utf-8")
        cluster.talosctl("validate", "--config", str(configs[node.name]), "--mode", "container")
    cluster.talosctl("-n", cluster.addresses[0], "etcd", "snapshot", str(tmp_path / "db.snapshot"))
    sys.stdout.write(f"MOVING_SEED={SEED}\n")
    with running_workload(cluster, control_plane, SEED, CALL_INTERVALS) as seen:
        # The first one goes back, too, as the page allows.
        for node, version in ((worker, NEW), (worker, OLD), *((node, NEW) for node in cluster.nodes[::-1])):
            move(cluster, node, configs[node.name], releases, version)
    eventually("every member answers", lambda: read_at_all_members(cluster, control_plane, seen))
    sys.stdout.write(f"{seen.describe()}\n")
    problems = seen.find_problems()
    assert not problems, "\n".join(problems[:20])
    assert seen.history.count_acknowledged() >= MIN_WRITES
