"""How much of a processor each process of an idle node takes."""

import time

from tests.bench.machine import Measured
from tests.bench.report import Budget, Table
from tests.harness.processor import processor_seconds

from talos.daemon.daemons import BY_NAME

BUDGET = Budget(limit=1, unit="%")
"""Of one processor, all our daemons of a node together."""
WINDOW = 20.0
"""Seconds over which an idle node is watched."""


def test_rest(pair: Measured) -> None:
    nodes = pair.cluster.nodes
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
        table.add(f"{node.name}: our daemons together", f"{total:.2f}", budget=BUDGET.judge(total))
        for share, name in sorted(own, reverse=True):
            table.add(f"  {name}", f"{share:.2f}")
    table.show()
