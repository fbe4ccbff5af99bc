"""What a unary call of a trio handler costs its server, by the library that the server speaks gRPC with.

Each server is a process of its own on a unix socket and answers the same small message. The client, the same
for all, sends prepared frames. Plain ``grpc.aio`` has a handler of asyncio's: the least that it costs.
"""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import multiprocessing
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import grpc.aio
import trio
from google.protobuf.wrappers_pb2 import BytesValue
from tests.bench.lean_client import LeanClient
from tests.bench.report import Table
from tests.harness.processor import processor_seconds
from tests.unit.rpc.echo import DESCRIPTOR

from talos.api.rpc import Call, Service
from talos.process.run import Daemon, host
from talos.rpc.server import serve
from talos.system.logging import Log

METHOD = "/test.Echo/Unary"
REPLY = BytesValue(value=bytes(200))
WARM_UP, CALLS = 300, 3000
IN_FLIGHT = (1, 32)
ROUNDS = 3
"""In turn, so that a busy time is not one server's alone; the best of each is shown."""
START_TIMEOUT = 60.0
"""Seconds."""


async def _serve_grpc(path: str, answer: Callable[[BytesValue, object], Awaitable[BytesValue]]) -> None:
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=BytesValue.FromString, response_serializer=BytesValue.SerializeToString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", {"Unary": handler}),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    await server.wait_for_termination()


def serve_plain(path: str) -> None:
    """``grpc.aio`` with a handler of asyncio's."""

    async def answer(request: BytesValue, context: object) -> BytesValue:
        del request, context
        return REPLY

    asyncio.run(_serve_grpc(path, answer))


def serve_bridged(path: str) -> None:
    """``grpc.aio`` with a handler of trio's, which runs as a daemon's does: as a guest of the same thread."""

    async def handle(request: BytesValue) -> BytesValue:
        await trio.lowlevel.checkpoint()
        del request
        return REPLY

    async def main(daemon: Daemon) -> None:
        async with trio.open_nursery() as nursery:

            async def answer(request: BytesValue, context: object) -> BytesValue:
                del context
                done: asyncio.Future[BytesValue] = asyncio.get_running_loop().create_future()

                async def run() -> None:
                    done.set_result(await handle(request))

                nursery.start_soon(run)
                return await done

            await daemon.bridge.call(_serve_grpc, path, answer)

    asyncio.run(host(main, "bridged", Log(write=lambda _: None)))


def serve_ours(path: str) -> None:
    """The project's own, with a handler of trio's."""

    async def handle(request: BytesValue, call: Call) -> BytesValue:
        await trio.lowlevel.checkpoint()
        del request, call
        return REPLY

    async def main(daemon: Daemon) -> None:
        async with serve(daemon, [Service(DESCRIPTOR, {"Unary": handle})], path):
            await trio.sleep_forever()

    asyncio.run(host(main, "ours", Log(write=lambda _: None)))


SERVERS = {"grpc.aio": serve_plain, "grpc.aio, bridged to trio": serve_bridged, "talos.rpc": serve_ours}


@contextmanager
def running(run: Callable[[str], None], path: Path) -> Generator[int]:
    """A server in a process of its own that listens; gives its pid."""
    process = multiprocessing.get_context("spawn").Process(target=run, args=(str(path),))
    process.start()
    try:
        asyncio.run(_wait_for(path))
        assert process.pid is not None
        yield process.pid
    finally:
        process.kill()
        process.join()


async def _wait_for(path: Path) -> None:
    async with asyncio.timeout(START_TIMEOUT):
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def measure(pid: int, path: Path, in_flight: int) -> tuple[float, float]:
    """The server's processor time of a call in µs, and the median time of a call in µs."""
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.connect(str(path))
        client = LeanClient(connection, METHOD)
        client.measure(in_flight, WARM_UP)
        before = processor_seconds(pid)
        figures = client.measure(in_flight, CALLS)
        return (processor_seconds(pid) - before) / CALLS * 1e6, figures.median * 1e3


def test_servers(tmp_path: Path) -> None:
    table = Table("A unary call of a small message, µs", ("in flight", "server's CPU", "p50"))
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for attempt in range(ROUNDS):
        for name, run in SERVERS.items():
            path = tmp_path / f"{run.__name__}-{attempt}.sock"
            with running(run, path) as pid:
                for in_flight in IN_FLIGHT:
                    found.setdefault((name, in_flight), []).append(measure(pid, path, in_flight))
    for (name, in_flight), figures in found.items():
        cpu, median = (min(column) for column in zip(*figures, strict=True))
        table.add(name, str(in_flight), f"{cpu:.0f}", f"{median:.0f}")
    table.show()
