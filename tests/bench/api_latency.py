"""How long a unary call takes: to machined's socket, through apid and routerd, through two apids.

    python tests/bench/api_latency.py

Every daemon is a process of its own, as on a node; machined is one handler that answers
Version. The client is Python's and is part of what is measured.
"""

# gRPC's type stubs know no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import multiprocessing
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import grpc
import grpc.aio
import trio

from talos.api.definitions import secrets_pb2 as secrets
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import Call, Service
from talos.apid.server import ApiServer
from talos.daemon.grpc_call import make_server
from talos.daemon.logging import Log
from talos.daemon.run import Daemon
from talos.daemon.run import host as run_host
from talos.daemon.server import serve
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.routerd.router import Router

METHOD = "/machine.MachineService/Version"
CALLS = {1: 2000, 32: 6000}
WARM_UP = 200

QUIET = Log(write=lambda _: None)


def run_machined(path: str, ready: Event) -> None:
    """A machined that knows one method."""
    reply = machine.VersionResponse()
    reply.messages.add().version.tag = "v1.0.0"

    async def version(_request: object, _call: Call) -> machine.VersionResponse:
        await trio.lowlevel.checkpoint()
        return reply

    descriptor = machine.DESCRIPTOR.services_by_name["MachineService"]

    async def main(daemon: Daemon) -> None:
        async with serve(daemon, [Service(descriptor, {"Version": version})], path):
            ready.set()
            await trio.sleep_forever()

    asyncio.run(run_host(main, "machined", QUIET))


def run_routerd(path: str, machined: str, ready: Event) -> None:
    """The real router."""

    async def main() -> None:
        router = Router({"machined": Path(machined)})
        server = make_server(router.handle, QUIET)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        ready.set()
        await server.wait_for_termination()

    asyncio.run(main())


def run_apid(certificates: bytes, router: str, address: str, port: int, ready: Event) -> None:
    """The real apid."""

    async def main() -> None:
        api = ApiServer(QUIET, router=Path(router), peer_port=port)
        api.certificates.set(secrets.APICertsSpec.FromString(certificates))
        api.start(port, address)
        ready.set()
        await asyncio.Event().wait()

    asyncio.run(main())


async def measure(
    channel: grpc.aio.Channel, in_flight: int, metadata: tuple[tuple[str, str], ...] = ()
) -> tuple[float, float, float]:
    """The median, the 99th percentile in ms, and calls per second."""
    unary = channel.unary_unary(METHOD)
    for _ in range(WARM_UP):
        await unary(b"", metadata=metadata)
    took: list[float] = []

    async def worker(count: int) -> None:
        for _ in range(count):
            begin = time.perf_counter()
            await unary(b"", metadata=metadata)
            took.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*(worker(CALLS[in_flight] // in_flight) for _ in range(in_flight)))
    total = time.perf_counter() - begin
    took.sort()
    return took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3, len(took) / total


async def run_client(folder: Path, ca: CertificateAuthority, port: int) -> None:
    """Measure every path and print the table."""
    mine = ca.issue(organizations=["os:admin"], usages=Usage.CLIENT)
    credentials = grpc.ssl_channel_credentials(ca.crt, mine.key, mine.crt)
    direct = grpc.aio.insecure_channel(f"unix:{folder}/machine.sock")
    through = grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials)
    metadata = (("talos-role", "os:admin"),)
    paths = {
        "machined's socket": (direct, metadata),
        "apid - routerd - machined": (through, ()),
        "apid - apid - routerd - machined": (through, (("node", "127.0.0.2"),)),
    }
    lines = [f"{'path':34}{'in flight':>10}{'p50 ms':>9}{'p99 ms':>9}{'calls/s':>9}"]
    for name, (channel, given) in paths.items():
        for in_flight in CALLS:
            median, worst, rate = await measure(channel, in_flight, given)
            lines.append(f"{name:34}{in_flight:10}{median:9.2f}{worst:9.2f}{rate:9.0f}")
    sys.stdout.write("\n".join(lines) + "\n")
    await direct.close()
    await through.close()


def main() -> None:
    """Start the daemons, measure, stop them."""
    spawn = multiprocessing.get_context("spawn")
    ca = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
    with tempfile.TemporaryDirectory() as name, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        pem = make_certificates(ca)
        parts: list[tuple[Callable[..., None], tuple[object, ...]]] = [
            (run_machined, (f"{name}/machine.sock",)),
            (run_routerd, (f"{name}/routerd.sock", f"{name}/machine.sock")),
            *((run_apid, (pem, f"{name}/routerd.sock", f"127.0.0.{last}", port)) for last in (1, 2)),
        ]
        processes: list[BaseProcess] = []
        try:
            for function, arguments in parts:
                ready = spawn.Event()
                process = spawn.Process(target=function, args=(*arguments, ready), daemon=True)
                process.start()
                processes.append(process)
                ready.wait(30)
            asyncio.run(run_client(Path(name), ca, port))
        finally:
            for process in processes:
                process.terminate()
                process.join(5)


def make_certificates(ca: CertificateAuthority) -> bytes:
    """A node's API certificates, encoded."""
    server = ca.issue(ips=["127.0.0.1", "127.0.0.2"], usages=Usage.SERVER)
    client = ca.issue(organizations=["os:impersonator"], usages=Usage.CLIENT)
    spec = secrets.APICertsSpec()
    spec.server.crt, spec.server.key = server.crt, server.key
    spec.client.crt, spec.client.key = client.crt, client.key
    spec.accepted_c_as.add(crt=ca.crt)
    return spec.SerializeToString()


if __name__ == "__main__":
    main()
