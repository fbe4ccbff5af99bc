"""How the upgrade of a fleet grows with its nodes: calls, processor time and memory of the client.

The nodes are played in this process and take no time themselves, so what is measured is the code that
talosctl and the upgrade controller share (`fleet/`), and the playing. A call over the network comes on top.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, override

from google.protobuf.message import Message
from tests.bench.report import Table
from tests.harness.credentials import resident
from tests.unit.fleet.cluster import IMAGE, NEW, Cluster, Node, Steps, make_cluster
from tests.unit.fleet.jumping import JumpingLoop

from talos.api.cosi.resource_pb2 import Resource
from talos.fleet.engine import Fleet, UpgradeOptions
from talos.fleet.plan import FleetLimits, make_plan
from talos.resource.kind import Kind
from talos.resource.kinds import MACHINE_STATUS

SIZES = [int(size) for size in os.environ.get("BENCH_FLEET", "10,100,500").split(",")]
CONTROL_PLANE = 3
PARALLEL, UNAVAILABLE = 10, 5


class CountedCluster(Cluster):
    """``calls`` is how many it has answered, by what; streams left out, of which a node has two."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        super().__init__(nodes)
        self.calls: Counter[str] = Counter()

    @override
    async def unary[R: Message](self, node: str, method: str, request: Any, reply: type[R]) -> R:
        self.calls[method] += 1
        return await super().unary(node, method, request, reply)

    @override
    async def resources(self, node: str, kind: Kind[Message]) -> Sequence[Resource]:
        self.calls[kind.type] += 1
        return await super().resources(node, kind)


async def measure(size: int, table: Table) -> None:
    """One row."""
    cluster = CountedCluster(make_cluster(CONTROL_PLANE, size - CONTROL_PLANE).nodes)
    before, began = resident(os.getpid()), time.process_time()
    plan = await make_plan(cluster, list(cluster.nodes), version=NEW)
    plan_time, plan_calls = time.process_time() - began, cluster.calls.total()
    cluster.calls.clear()
    fleet = Fleet(
        calls=cluster,
        plan=plan,
        options=UpgradeOptions(image=IMAGE, version=NEW),
        limits=FleetLimits(parallel=PARALLEL, unavailable=UNAVAILABLE),
        watcher=Steps(),
    )
    began = time.process_time()
    progress = await fleet.run()
    upgrade_time = time.process_time() - began
    assert progress.has_succeeded, progress.reason
    peers = cluster.calls[MACHINE_STATUS.type]
    table.add(
        f"{size} nodes",
        f"{plan_calls / size:.1f}",
        f"{1e3 * plan_time / size:.1f}",
        f"{peers / size:.0f}",
        f"{(cluster.calls.total() - peers) / size:.0f}",
        f"{1e3 * upgrade_time / size:.1f}",
        f"{resident(os.getpid()) - before:.1f}",
    )


def test_fleet_growth() -> None:
    columns = ("calls of the plan", "ms", "calls of others", "of itself", "ms", "MiB in all")
    table = Table(f"upgrade of a fleet, {UNAVAILABLE} down at once, a node", columns)
    for size in SIZES:
        asyncio.run(measure(size, table), loop_factory=JumpingLoop)
    table.show()
