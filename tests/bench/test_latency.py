"""What a unary call costs on each path: to machined's socket, through apid and routerd, through two apids.

The client runs on the same processors as the nodes and is part of what is measured: a column has its own
processor time. It is Python's grpc.aio, for which the first rows have an echo server on gRPC's C core. In the
last rows, which the budgets are for, it sends prepared frames and costs no more than a compiled one.
"""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import multiprocessing
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import grpc.aio
from tests.bench.lean_client import Figures, connect
from tests.bench.machine import Measured
from tests.bench.report import Budget, Table

METHOD = "/machine.MachineService/Memory"
MEDIAN = Budget(limit=0.65, unit="ms")
P99 = Budget(limit=1.5, unit="ms")
BUSY_P99 = Budget(limit=12, unit="ms")
RATE = Budget(limit=5500, unit="/s", is_minimum=True)
"""At 32 in flight, as the one before."""
CALLS = {1: 1000, 32: 3000}
WARM_UP = 200
ROLE = ("talos-role", "os:admin")
REPLY = bytes(200)
"""About as long as what the node answers."""


def serve_echo(path: str) -> None:
    """A server on gRPC's C core, in a process of its own; it is ended from outside."""

    async def reply(_request: bytes, _context: object) -> bytes:
        return REPLY

    async def main() -> None:
        server = grpc.aio.server()
        service, method = METHOD.strip("/").split("/")
        handlers = {method: grpc.unary_unary_rpc_method_handler(reply)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        await server.wait_for_termination()

    asyncio.run(main())


@contextmanager
def echo_server(path: Path) -> Generator[None]:
    process = multiprocessing.get_context("spawn").Process(target=serve_echo, args=(str(path),))
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


async def measure(
    channel: grpc.aio.Channel, in_flight: int, metadata: tuple[tuple[str, str], ...]
) -> Figures:
    """Call as often as the table has it."""
    unary = channel.unary_unary(METHOD)
    for _ in range(WARM_UP):
        await unary(b"", metadata=metadata, wait_for_ready=True)
    took: list[float] = []

    async def work(count: int) -> None:
        for _ in range(count):
            begin = time.perf_counter()
            await unary(b"", metadata=metadata)
            took.append(time.perf_counter() - begin)

    begin, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work(CALLS[in_flight] // in_flight) for _ in range(in_flight)))
    total, used = time.perf_counter() - begin, time.process_time() - used
    took.sort()
    return Figures(
        median=took[len(took) // 2] * 1e3,
        p99=took[int(len(took) * 0.99)] * 1e3,
        rate=len(took) / total,
        client=used / len(took) * 1e3,
    )


def describe(figures: Figures, in_flight: int) -> str:
    """The budgets of a call."""
    if in_flight > 1:
        return f"{RATE.describe(figures.rate)}, p99 {BUSY_P99.describe(figures.p99)}"
    return f"p50 {MEDIAN.describe(figures.median)}, p99 {P99.describe(figures.p99)}"


async def run_client(pair: Measured, echo: Path) -> Table:
    """Measure every path."""
    root = pair.cluster.root()
    plain = grpc.aio.insecure_channel(f"unix:{echo}")
    direct = grpc.aio.insecure_channel(f"unix:{root}/system/run/machined/machine.sock")
    through = grpc.aio.secure_channel(pair.targets[0], pair.credentials)
    own, other = pair.cluster.addresses
    paths = (
        ("an echo server on C core", plain, ()),
        ("machined's socket", direct, (ROLE,)),
        ("apid, routerd, machined", through, ()),
        ("the same, by node", through, (("node", own),)),
        ("apid, apid, routerd, machined", through, (("node", other),)),
    )
    table = Table("A unary call, ms", ("in flight", "p50", "p99", "calls/s", "client's CPU"))
    async with plain, direct, through:
        for name, channel, metadata in paths:
            for in_flight in CALLS:
                add(table, name, in_flight, await measure(channel, in_flight, metadata))
    return table


def run_lean_client(pair: Measured, table: Table) -> None:
    """Measure the usual path without a client's cost."""
    host = pair.cluster.addresses[0]
    with connect(host, pair.authority, pair.client, METHOD) as client:
        client.measure(1, WARM_UP)
        for in_flight, calls in CALLS.items():
            figures = client.measure(in_flight, calls)
            add(table, "the usual path, prepared frames", in_flight, figures, describe(figures, in_flight))


def add(table: Table, name: str, in_flight: int, figures: Figures, budget: str = "") -> None:
    """One row."""
    table.add(
        name,
        str(in_flight),
        f"{figures.median:.2f}",
        f"{figures.p99:.2f}",
        f"{figures.rate:.0f}",
        f"{figures.client:.2f}",
        budget=budget,
    )


def test_latency(pair: Measured, tmp_path: Path) -> None:
    echo = tmp_path / "echo.sock"
    with echo_server(echo):
        table = asyncio.run(run_client(pair, echo))
    run_lean_client(pair, table)
    table.show()
