"""Nodes with a real apid and a real router on loopback, and a fake machined behind them."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from talos.api.definitions import secrets_pb2 as secrets
from talos.apid.server import ApiServer
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.routerd.router import Router
from talos.rpc.http2.server import LocalServer
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.limits import MAX_MESSAGE, REPLY_MEMORY
from talos.rpc.port.limits import Limits
from talos.rpc.protocol import OK, Status
from talos.rpc.proxy.local import make_server
from talos.system.logging import Log

VERSION = "/machine.MachineService/Version"
MEMORY = "/machine.MachineService/Memory"
APPLY = "/machine.MachineService/ApplyConfiguration"
READ = "/machine.MachineService/Read"
EVENTS = "/machine.MachineService/Events"
RECOVER = "/machine.MachineService/EtcdRecover"
RUN = "/machine.DebugService/ContainerRun"
TIME = "/time.TimeService/Time"
GET = "/cosi.resource.State/Get"

type Backend = Callable[[ServerCall], Awaitable[Status]]

ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "::1")


@dataclass
class Pki:
    """A cluster's CA."""

    ca: CertificateAuthority = field(
        default_factory=lambda: CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
    )

    def server(self, *further: str) -> PemPair:
        """A node's certificate, with further addresses."""
        ips = [*ADDRESSES, *further]
        return self.ca.issue(
            common_name="node", ips=ips, dns_names=["localhost", "node"], usages=Usage.SERVER
        )

    def client(self, *roles: str, **options: Any) -> PemPair:
        settings: dict[str, Any] = {"organizations": roles, "usages": Usage.CLIENT, **options}
        return self.ca.issue(**settings)

    def expired(self) -> PemPair:
        past = datetime.now(UTC) - timedelta(days=3)
        return self.client("os:admin", not_before=past, ttl=timedelta(days=1))

    def spec(self, *further: str, worker: bool = False, maintenance: bool = False) -> secrets.APICertsSpec:
        server, client = self.server(*further), self.client("os:impersonator")
        spec = secrets.APICertsSpec(skip_verifying_client_cert=maintenance)
        spec.server.crt, spec.server.key = server.crt, server.key
        if not worker:
            spec.client.crt, spec.client.key = client.crt, client.key
        spec.accepted_c_as.add(crt=self.ca.crt)
        return spec


@dataclass
class Node:
    """A running node."""

    api: ApiServer
    port: int
    host: str
    lines: list[str]

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def refusals(self) -> list[str]:
        return [record["reason"] for record in self.records if record["msg"] == "refused a connection"]


async def answer_with_name(name: str, call: ServerCall) -> Status:
    """A reply with one element, with the node's name and the request's content."""
    request = await call.receive()
    element = b"\x12" + bytes([len(name)]) + name.encode() + (request or b"")
    await call.send(b"\x0a" + bytes([len(element)]) + element)
    return OK


@asynccontextmanager
async def node(
    folder: Path,
    pki: Pki,
    backend: Backend,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    worker: bool = False,
    maintenance: bool = False,
    limits: Limits | None = None,
    reply_memory: int = REPLY_MEMORY,
    timed: Backend | None = None,
) -> AsyncGenerator[Node]:
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240
    lines: list[str] = []
    log = Log(write=lines.append)
    servers = [await _serve(backend, folder / "machine.sock", log)]
    if timed is not None:
        servers.append(await _serve(timed, folder / "timed.sock", log))
    router = Router({"machined": folder / "machine.sock", "timed": folder / "timed.sock"})
    servers.append(await _serve(router.handle, folder / "routerd.sock", log))
    api = ApiServer(
        log, router=folder / "routerd.sock", peer_port=port, limits=limits, reply_memory=reply_memory
    )
    api.certificates.set(pki.spec(worker=worker, maintenance=maintenance))
    bound = api.start(port, host)
    try:
        yield Node(api, bound, host, lines)
    finally:
        await api.stop(grace=0.2)
        for server in servers:
            await server.stop(0)
        router.close()


async def _serve(backend: Backend, path: Path, log: Log) -> LocalServer:
    server = make_server(backend, log)
    await server.start(path)
    return server


@asynccontextmanager
async def client(
    target: Node, pki: Pki, certificate: PemPair | None, **options: Any
) -> AsyncGenerator[grpc.aio.Channel]:
    """An ordinary gRPC client; its TLS takes P-256 only."""
    credentials = grpc.ssl_channel_credentials(
        pki.ca.crt, certificate and certificate.key, certificate and certificate.crt
    )
    settings = [
        ("grpc.max_receive_message_length", MAX_MESSAGE),
        ("grpc.max_send_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        *options.items(),
    ]
    host = f"[{target.host}]" if ":" in target.host else target.host
    channel = grpc.aio.secure_channel(f"{host}:{target.port}", credentials, settings)
    try:
        yield channel
    finally:
        await channel.close()


async def call(
    channel: grpc.aio.Channel,
    method: str = VERSION,
    request: bytes = b"",
    *,
    metadata: Mapping[str, str | bytes | list[str]] | None = None,
    timeout: float = 20.0,  # noqa: ASYNC109
) -> bytes:
    """A unary call."""
    pairs = [
        (key, value)
        for key, values in (metadata or {}).items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return await channel.unary_unary(method)(request, metadata=pairs, timeout=timeout)


def free_port() -> int:
    """A port that is free on every loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
