"""How long etcd takes: to form a cluster, to write after its leader was killed, to replace a member."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.bench.report import Table
from tests.harness.cluster import Cluster, check_services, eventually, running_cluster
from tests.harness.etcd import find_etcd, open_keys

PATIENCE = 180.0
ATTEMPT = 0.3
"""Seconds of one write: etcd holds what came while there was no leader for seven seconds."""


def seconds_until(what: str, check: Callable[[], object]) -> float:
    began = time.monotonic()
    eventually(what, check, seconds=PATIENCE, pause=0.02)
    return time.monotonic() - began


def find_leader(cluster: Cluster) -> int:
    """The position of the node whose member leads."""
    for position, node in enumerate(cluster.nodes):
        (row,) = cluster.rows("-e", str(node.address), "-n", str(node.address), "etcd", "status")
        if row["MEMBER"] == row["LEADER"]:
            return position
    raise AssertionError("no member leads")


@pytest.mark.parametrize("count", [1, 3])
def test_etcd(tmp_path: Path, count: int) -> None:
    table = Table(f"etcd with {count} control plane nodes, seconds", ("seconds",))
    began = time.monotonic()
    with running_cluster(tmp_path, controlplanes=count) as cluster:
        table.add("create → every member is healthy", f"{time.monotonic() - began:.1f}")
        if count > 1:
            leader = find_leader(cluster)
            other = cluster.nodes[(leader + 1) % count]
            with open_keys(cluster, other, timeout=ATTEMPT) as keys:
                os.kill(find_etcd(cluster.nodes[leader]), signal.SIGKILL)
                table.add(
                    "leader killed → next write",
                    f"{seconds_until('a write', lambda: keys.put('a', 'b')):.1f}",
                )
            for node in cluster.nodes:
                address = str(node.address)
                eventually(f"{address} is well", lambda address=address: check_services(cluster, address))
            address = str(other.address)
            (before,) = cluster.rows("-e", address, "-n", address, "get", "etcdmembers")
            shutil.rmtree(cluster.root(other) / "var/lib/etcd/member")
            os.kill(find_etcd(other), signal.SIGKILL)

            def is_replaced() -> None:
                check_services(cluster, address)
                (after,) = cluster.rows("-e", address, "-n", address, "get", "etcdmembers")
                assert after["MEMBER ID"] != before["MEMBER ID"]

            table.add(
                "data of a member lost → replaced and healthy",
                f"{seconds_until('a new member', is_replaced):.1f}",
            )
    table.show()
