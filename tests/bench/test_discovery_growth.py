"""How the discovery server's cost grows with the affiliates of a cluster: processor time, memory, bytes.

Without gRPC, which costs the same for each message: what grows is what the server keeps and sends. Each
affiliate has a watch, up to a hundred.
"""

import asyncio
import os
import time

from tests.bench.report import MEBIBYTE, Table
from tests.harness.credentials import resident

from talos.api.discovery.cluster_pb2 import ListResponse, WatchResponse
from talos.discovery.clusters import Clusters, Subscription
from talos.discovery.limits import Capacity

SIZES = [int(size) for size in os.environ.get("BENCH_AFFILIATES", "10,100,1000,10000").split(",")]
"""A cluster has 1,024 affiliates at most: beyond it the bound is lifted."""
CLUSTER = "8XuV9TZHW08DOk3bVxQjH9ih_TBKjnh-j44tsCLSBzo="
DATA = 420
"""Bytes of a node's data, encrypted, as nodes with KubeSpan publish them."""
ENDPOINTS = tuple(bytes((number,)) * 32 for number in range(3))
TTL = 1800.0
"""Seconds."""
CHANGES, MAX_WATCHES = 20, 100


def make_id(number: int) -> str:
    return f"affiliate-{number:032x}"


async def deliver(subscriptions: list[Subscription]) -> int:
    """Every watch sends what has changed; the bytes of all messages."""
    size = 0
    for subscription in subscriptions:
        present, _ = await subscription.wait()
        size += len(WatchResponse(affiliates=present).SerializeToString())
    return size


async def measure(size: int, table: Table) -> None:
    """One row: times in µs."""
    capacity = Capacity(cluster_affiliates=size, cluster_subscriptions=size)
    clusters = Clusters(time.monotonic, capacity)

    def change(number: int, round: int) -> None:
        data = round.to_bytes(4) + number.to_bytes(4) + bytes(DATA - 8)
        clusters.update(CLUSTER, make_id(number), data, ENDPOINTS, TTL)

    before, began = resident(os.getpid()), time.process_time()
    for number in range(size):
        change(number, 0)
    update_time = time.process_time() - began
    memory = (resident(os.getpid()) - before) * MEBIBYTE / size
    began = time.process_time()
    listed = ListResponse(affiliates=clusters.find_affiliates(CLUSTER)).SerializeToString()
    list_time = time.process_time() - began
    began = time.process_time()
    for number in range(size):
        change(number, 0)
    refresh_time = time.process_time() - began
    # Subscribing makes the contents of a list: a hundred watches show what one costs.
    subscriptions = [clusters.subscribe(CLUSTER)[1] for _ in range(min(size, MAX_WATCHES))]
    began, sent = time.process_time(), 0
    for number in range(min(size, CHANGES)):
        change(number, 1)
        sent += await deliver(subscriptions)
    messages = min(size, CHANGES) * len(subscriptions)
    change_time = time.process_time() - began
    began = time.process_time()
    clusters.collect()
    collect_time = time.process_time() - began
    table.add(
        f"{size:,} affiliates",
        f"{1e6 * update_time / size:.1f}",
        f"{1e6 * refresh_time / size:.1f}",
        f"{1e6 * list_time / size:.1f}",
        f"{1e6 * change_time / messages:.1f}",
        f"{1e6 * collect_time / size:.1f}",
        f"{len(listed) / size:.0f}",
        f"{sent / messages:.0f}",
        f"{memory:.0f}",
    )


def test_discovery_growth() -> None:
    table = Table(
        "The discovery server, µs of processor time an affiliate",
        (
            "update", "the same again", "list", "change, a watch", "collection",
            "bytes of a list", "of a change", "of memory",
        ),
    )  # fmt: skip
    for size in SIZES:
        asyncio.run(measure(size, table))
    table.show()
