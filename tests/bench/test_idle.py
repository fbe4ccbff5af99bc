"""Memory and processor time of idle nodes of a cluster, by process: control plane with etcd, and a worker."""

import time
from pathlib import Path

from tests.bench.machine import run_nodes
from tests.bench.report import Table
from tests.bench.test_cluster import bootstrap
from tests.bench.test_memory import read_memory
from tests.harness.cluster import check_services, eventually, image_archives
from tests.harness.processor import find_processes, processor_seconds

WINDOW = 60.0
"""Seconds over which the nodes are watched."""
SETTLING = 15.0
"""Seconds after the last change."""
CLUSTER_TIMEOUT = 300.0  # seconds


def test_idle(tmp_path: Path) -> None:
    table = Table(f"Idle nodes over {WINDOW:g} s", ("PSS MiB", "% of a processor"))
    with run_nodes(tmp_path, controlplanes=3, workers=1, images=image_archives()) as measured:
        cluster = measured.cluster
        bootstrap(measured)
        for address in cluster.addresses:
            check = lambda node=address: check_services(cluster, node)  # noqa: E731
            eventually(f"{address} is up", check, seconds=CLUSTER_TIMEOUT)
        time.sleep(SETTLING)
        nodes = {node.name.partition("-")[2]: find_processes(node) for node in cluster.nodes}
        used = {pid: processor_seconds(pid) for found in nodes.values() for _, pid in found}
        began = time.monotonic()
        time.sleep(WINDOW)
        elapsed = time.monotonic() - began
        for node, found in nodes.items():
            rows = [
                (read_memory(pid)["Pss"], 100 * (processor_seconds(pid) - used[pid]) / elapsed, name)
                for name, pid in found
            ]
            table.add(node, f"{sum(row[0] for row in rows):.1f}", f"{sum(row[1] for row in rows):.2f}")
            for memory, share, name in sorted(rows, reverse=True):
                table.add(f"  {name}", f"{memory:.1f}", f"{share:.2f}")
    table.show()
