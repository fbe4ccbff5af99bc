"""How much of a processor each process of an idle node takes that has links of several kinds."""

import time
from pathlib import Path

from tests.bench.machine import Measured
from tests.bench.report import Budget, Table
from tests.harness.processor import processor_seconds
from tests.node.test_rest import LINKS

from talos.process.daemons import BY_NAME

BUDGET = Budget(limit=0.3, unit="%")
"""Of one processor, all our daemons of a node together."""
EACH = Budget(limit=0.1, unit="%")
"""Of one processor, each of them."""
WINDOW = 60.0
"""Seconds over which an idle node is watched."""
SETTLING = 10.0
"""Seconds after the last change."""


def test_rest(pair: Measured, tmp_path: Path) -> None:
    nodes = pair.cluster.nodes
    patch = tmp_path / "patch.yaml"
    patch.write_text(LINKS, encoding="utf-8")
    for address in pair.cluster.addresses:
        argv = ("patch", "mc", "--mode", "no-reboot", "--patch", f"@{patch}")
        pair.cluster.talosctl("-e", address, "-n", address, *argv)
    time.sleep(SETTLING)
    pids = [
        (node.name, "machined" if pid == node.pid else name, pid)
        for node in nodes
        for name, found in pair.cluster.processes(node).items()
        for pid in found
        if pid == node.pid or name in BY_NAME
    ]
    began = time.monotonic()
    before = {pid: processor_seconds(pid) for _, _, pid in pids}
    time.sleep(WINDOW)
    seconds = time.monotonic() - began
    shares = {pid: 100 * (processor_seconds(pid) - used) / seconds for pid, used in before.items()}
    table = Table("Idle nodes, % of one processor", ("share",))
    for node in nodes:
        own = [(shares[pid], name) for place, name, pid in pids if place == node.name]
        total = sum(share for share, _ in own)
        table.add(f"{node.name}: our daemons together", f"{total:.2f}", budget=BUDGET.describe(total))
        for share, name in sorted(own, reverse=True):
            table.add(f"  {name}", f"{share:.2f}", budget=EACH.describe(share))
    table.show()
