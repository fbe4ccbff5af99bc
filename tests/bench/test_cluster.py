"""Seconds until a cluster is healthy: when it is made, when its leader is killed, when a node is replaced.

Well means that every service but the kubelet, whose image is not there, is up on every node, and that every
member of etcd names the same members, all of which vote. Commands of 0.1 s check it every 50 ms.
"""

import os
import shutil
import signal
import time
from pathlib import Path

from tests.bench.machine import Measured, run_nodes
from tests.bench.report import Table, spread
from tests.harness.cluster import Cluster, check_services, eventually, image_archives
from tests.harness.etcd import find_etcd, open_keys

from talos.provision.cluster import NodeInfo
from talos.provision.local import reboot_node

SIZES = (1, 3, 5)
KILLS = 5
REPLACEMENTS = 3
CLUSTER_TIMEOUT = 300.0
"""Seconds: nothing fails on time here, but a cluster that is never healthy."""
WRITE_TIMEOUT = 1.0
"""Seconds of one attempt to write."""


def read_members(cluster: Cluster, address: str) -> dict[str, str]:
    """Ids by host name; AssertionError while one is a learner, or not there."""
    rows = cluster.rows("-e", address, "-n", address, "etcd", "members")
    assert all(row["LEARNER"] == "false" for row in rows), rows
    found = {row["HOSTNAME"]: row["ID"] for row in rows}
    assert found.keys() == {node.name for node in cluster.nodes}
    return found


def check_well(cluster: Cluster) -> dict[str, str]:
    """Assert that the cluster is healthy; its members."""
    for address in cluster.addresses:
        check_services(cluster, address)
    views = [read_members(cluster, address) for address in cluster.addresses]
    assert all(view == views[0] for view in views)
    return views[0]


def wait_until_well(cluster: Cluster) -> dict[str, str]:
    return eventually("all is well", lambda: check_well(cluster), seconds=CLUSTER_TIMEOUT)


def find_leader(cluster: Cluster) -> NodeInfo:
    names = {member: name for name, member in read_members(cluster, cluster.addresses[0]).items()}
    (status,) = cluster.rows("-n", cluster.addresses[0], "etcd", "status")
    return next(node for node in cluster.nodes if node.name == names[status["LEADER"]])


def bootstrap(measured: Measured) -> None:
    eventually("etcd is bootstrapped", measured.cluster.bootstrap, seconds=CLUSTER_TIMEOUT)


def test_a_cluster_is_created(tmp_path: Path) -> None:
    table = Table("From the start of the launcher, s", ("bootstrapped", "well", "CPU"))
    for size in SIZES:
        folder = tmp_path / str(size)
        folder.mkdir()
        with run_nodes(folder, controlplanes=size, images=image_archives()) as measured:
            bootstrap(measured)
            bootstrapped = time.monotonic() - measured.launched
            wait_until_well(measured.cluster)
            well = time.monotonic() - measured.launched
            figures = (bootstrapped, well, measured.cpu_seconds())
            table.add(f"{size} control plane nodes", *(f"{figure:.1f}" for figure in figures))
    table.show()


def kill_leader(cluster: Cluster) -> float:
    """Seconds from the leader's end to the end of the first write that began after it."""
    leader = find_leader(cluster)
    other = next(node for node in cluster.nodes if node.name != leader.name)
    with open_keys(cluster, other, timeout=WRITE_TIMEOUT) as keys:
        keys.put("leader", leader.name)
        pid = find_etcd(leader)
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        eventually("a key is written", lambda: keys.put("leader", "killed"), pause=0.01)
        return time.monotonic() - began


def replace_node(cluster: Cluster) -> float:
    """Seconds from a restart of a node that has lost its data to a cluster that is healthy with it."""
    node, before = cluster.nodes[-1], read_members(cluster, cluster.addresses[0])
    shutil.rmtree(cluster.root(node) / "var/lib/etcd/member")
    began = time.monotonic()
    reboot_node(cluster.name, cluster.directory, [node.name])

    def is_replaced() -> None:
        assert check_well(cluster)[node.name] != before[node.name]

    eventually("the node is replaced", is_replaced, seconds=CLUSTER_TIMEOUT)
    return time.monotonic() - began


def test_a_cluster_recovers(tmp_path: Path) -> None:
    table = Table("Three control plane nodes, s", ("min", "median", "max"))
    with run_nodes(tmp_path, controlplanes=3, images=image_archives()) as measured:
        cluster = measured.cluster
        bootstrap(measured)
        wait_until_well(cluster)
        kills: list[float] = []
        for _ in range(KILLS):
            kills.append(kill_leader(cluster))
            wait_until_well(cluster)
        table.add(f"leader killed → next write, {KILLS} times", *spread(kills, 2))
        replaced = [replace_node(cluster) for _ in range(REPLACEMENTS)]
        table.add(f"node restarted without its data → well, {REPLACEMENTS} times", *spread(replaced, 1))
    table.show()
