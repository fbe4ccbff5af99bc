"""How fast a big file is read from a node: machined, routerd and apid pass it on, the client drops it."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import time

import grpc.aio
from tests.bench.machine import Measured
from tests.bench.report import MEGABYTE, Budget, Table, spread

from talos.api.common import common_pb2
from talos.api.machine import machine_pb2

METHOD = "/machine.MachineService/Read"
PATH = "/var/big"
SIZE = 200 * MEGABYTE
RUNS = 5
BUDGET = Budget(limit=200, unit="MB/s", is_minimum=True)
"""Through a second node."""
ROLE = ("talos-role", "os:admin")


async def measure(channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...]) -> float:
    """Megabytes per second."""
    read = channel.unary_stream(METHOD, response_deserializer=common_pb2.Data.FromString)
    begin = time.perf_counter()
    got = 0
    async for part in read(machine_pb2.ReadRequest(path=PATH).SerializeToString(), metadata=metadata):
        got += len(part.bytes)
    assert got == SIZE, got
    return got / MEGABYTE / (time.perf_counter() - begin)


async def run_client(pair: Measured) -> Table:
    """Read it on every path."""
    root = pair.cluster.root()
    (root / PATH.removeprefix("/")).write_bytes(bytes(SIZE))
    other = pair.cluster.root(pair.cluster.nodes[1])
    (other / PATH.removeprefix("/")).write_bytes(bytes(SIZE))
    direct = grpc.aio.insecure_channel(f"unix:{root}/system/run/machined/machine.sock")
    through = grpc.aio.secure_channel(pair.targets[0], pair.credentials)
    paths = (
        ("machined's socket", direct, (ROLE,)),
        ("apid, routerd, machined", through, ()),
        ("apid, apid, routerd, machined", through, (("node", pair.cluster.addresses[1]),)),
    )
    table = Table(f"Read of {SIZE // MEGABYTE} MB, {RUNS} runs, MB/s", ("min", "median", "max"))
    async with direct, through:
        for name, channel, metadata in paths:
            cells = spread([await measure(channel, metadata) for _ in range(RUNS)])
            through_two = metadata and metadata != (ROLE,)
            table.add(name, *cells, budget=BUDGET.describe(float(cells[1])) if through_two else "")
    return table


def test_stream(pair: Measured) -> None:
    asyncio.run(run_client(pair)).show()
