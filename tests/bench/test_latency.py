"""What a unary call costs on each path: to machined's socket, through apid and routerd, through two apids.

The client is Python's grpc.aio, on the same processors as the nodes, and is part of what is measured.
"""

# gRPC's type stubs know no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import time

import grpc.aio
from tests.bench.machine import Measured
from tests.bench.report import Budget, Table

METHOD = "/machine.MachineService/Version"
MEDIAN = Budget(limit=3, unit="ms")
WORST = Budget(limit=10, unit="ms")
CALLS = {1: 1000, 32: 3000}
WARM_UP = 200
ROLE = ("talos-role", "os:admin")


async def measure(
    channel: grpc.aio.Channel, in_flight: int, metadata: tuple[tuple[str, str], ...]
) -> tuple[float, float, float]:
    """The median, the 99th percentile in ms, and calls per second."""
    unary = channel.unary_unary(METHOD)
    for _ in range(WARM_UP):
        await unary(b"", metadata=metadata)
    took: list[float] = []

    async def work(count: int) -> None:
        for _ in range(count):
            begin = time.perf_counter()
            await unary(b"", metadata=metadata)
            took.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*(work(CALLS[in_flight] // in_flight) for _ in range(in_flight)))
    total = time.perf_counter() - begin
    took.sort()
    return took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3, len(took) / total


async def run_client(pair: Measured) -> Table:
    """Measure every path."""
    root = pair.cluster.root()
    direct = grpc.aio.insecure_channel(f"unix:{root}/system/run/machined/machine.sock")
    through = grpc.aio.secure_channel(pair.targets[0], pair.credentials)
    own, other = pair.cluster.addresses
    paths = (
        ("machined's socket", direct, (ROLE,), False),
        ("apid, routerd, machined", through, (), True),
        ("the same, asked by node", through, (("node", own),), False),
        ("apid, apid, routerd, machined", through, (("node", other),), False),
    )
    table = Table("A unary call, ms", ("in flight", "p50", "p99", "calls/s"))
    async with direct, through:
        for name, channel, metadata, is_budgeted in paths:
            for in_flight in CALLS:
                median, worst, rate = await measure(channel, in_flight, metadata)
                judged = f"p50 {MEDIAN.judge(median)}, p99 {WORST.judge(worst)}"
                table.add(
                    name,
                    str(in_flight),
                    f"{median:.2f}",
                    f"{worst:.2f}",
                    f"{rate:.0f}",
                    budget=judged if is_budgeted and in_flight == 1 else "",
                )
    return table


def test_latency(pair: Measured) -> None:
    asyncio.run(run_client(pair)).show()
