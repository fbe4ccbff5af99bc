"""A node with real TLS and made-up answers, and talosctl run in this process."""

import asyncio
import base64
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.message import Message
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.talosctl.client.channel import Codec, DetailsCodec
from talos.talosctl.main import run

type Answer = Message | Sequence[Message] | GRPCError
type Answers = Callable[[Any, Mapping[str, str]], Awaitable[Answer] | AsyncIterator[Message] | Answer]


@dataclass
class Route:
    request: type[Message]
    answer: Answers
    is_stream: bool
    takes_stream: bool = False


@dataclass
class FakeNode:
    """Serves what a test gives it; remembers every request with the node it was for."""

    server_pair: PemPair
    ca: bytes | None
    alpn: bool = True
    routes: dict[str, Route] = field(default_factory=dict[str, Route])
    seen: list[tuple[str, str, Message]] = field(default_factory=list[tuple[str, str, Message]])
    connections: int = 0
    port: int = 0

    def on(
        self, method: str, request: type[Message], answer: Answers | Answer, *, stream: bool = False
    ) -> None:
        """Answer a method; a function is given the request and the metadata."""
        function: Answers = answer if callable(answer) else (lambda _request, _metadata: answer)
        self.routes[method] = Route(request, function, stream)

    def __mapping__(self) -> Mapping[str, Handler]:
        return {
            path: Handler(
                self._handler(path, route),
                Cardinality.UNARY_STREAM if route.is_stream else Cardinality.UNARY_UNARY,
                route.request,
                Message,
            )
            for path, route in self.routes.items()
        }

    def _handler(self, path: str, route: Route) -> Callable[[Stream[Any, Any]], Awaitable[None]]:
        async def handle(stream: Stream[Any, Any]) -> None:
            request = await stream.recv_message()
            metadata = {key: str(value) for key, value in (stream.metadata or {}).items()}
            self.seen.append((path, metadata.get("node", ""), request))
            answer: Any = self.routes[path].answer(request, metadata)
            if isinstance(answer, Awaitable):
                answer = await answer
            if isinstance(answer, GRPCError):
                raise answer
            if isinstance(answer, Message):
                await stream.send_message(answer)
            elif isinstance(answer, AsyncIterator):
                async for message in answer:
                    await stream.send_message(message)
            else:
                for message in answer:
                    await stream.send_message(message)

        return handle

    def context(self, folder: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if self.alpn:
            context.set_alpn_protocols(["h2"])
        crt, key = folder / "server.crt", folder / "server.key"
        crt.write_bytes(self.server_pair.crt)
        key.write_bytes(self.server_pair.key)
        context.load_cert_chain(crt, key)
        if self.ca is not None:
            context.load_verify_locations(cadata=self.ca.decode())
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def serve(self, folder: Path) -> Iterator["FakeNode"]:
        ready = threading.Event()
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()

        async def main() -> None:
            server = Server([], codec=Codec(), status_details_codec=DetailsCodec())
            server._mapping = _Routes(self)
            await server.start("127.0.0.1", self.port, ssl=self.context(folder))
            assert server._server is not None and server._server.sockets  # noqa: PT018
            self.port = server._server.sockets[0].getsockname()[1]
            ready.set()
            await stop.wait()
            server.close()
            for task in asyncio.all_tasks(loop) - {asyncio.current_task(loop)}:
                task.cancel()
            await asyncio.sleep(0)
            await server.wait_closed()

        thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
        thread.start()
        assert ready.wait(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)
            loop.close()


class _Routes(dict[str, Handler]):
    """Looks routes up at call time: tests add them after the start."""

    def __init__(self, node: FakeNode) -> None:
        super().__init__()
        self._node = node

    def get(self, path: str, default: Any = None) -> Any:  # type: ignore[override]
        return self._node.__mapping__().get(path, default)


@dataclass(frozen=True)
class Pki:
    authority: CertificateAuthority
    admin: PemPair
    reader: PemPair
    server: PemPair


@pytest.fixture(scope="session")
def pki() -> Pki:
    authority = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
    return Pki(
        authority=authority,
        admin=authority.issue(organizations=["os:admin"], usages=Usage.CLIENT, key_type=KeyType.ED25519),
        reader=authority.issue(organizations=["os:reader"], usages=Usage.CLIENT, key_type=KeyType.ED25519),
        server=authority.issue(
            common_name="node", ips=["127.0.0.1"], dns_names=["localhost"], usages=Usage.SERVER
        ),
    )


@pytest.fixture
def node(pki: Pki, tmp_path: Path) -> Iterator[FakeNode]:
    """A configured node: it demands client certificates of its CA."""
    folder = tmp_path / "node"
    folder.mkdir()
    yield from FakeNode(server_pair=pki.server, ca=pki.authority.crt).serve(folder)


@pytest.fixture
def maintenance_node(tmp_path: Path) -> Iterator[FakeNode]:
    """A node in maintenance mode: a CA nobody knows, no client certificates."""
    folder = tmp_path / "maintenance"
    folder.mkdir()
    other = CertificateAuthority.generate(KeyType.P256, common_name="maintenance")
    pair = other.issue(common_name="maintenance-service.talos.dev", ips=["127.0.0.1"], usages=Usage.SERVER)
    yield from FakeNode(server_pair=pair, ca=None).serve(folder)


@dataclass
class Result:
    code: int
    out: str
    err: str


@dataclass
class Client:
    """Runs talosctl with a talosconfig of one context."""

    path: Path
    capture: pytest.CaptureFixture[str]
    pki: Pki

    def configure(
        self,
        endpoints: Sequence[str],
        nodes: Sequence[str] = (),
        *,
        pair: PemPair | None = None,
        ca: bytes | None = None,
        **extra: Any,
    ) -> None:
        encode = lambda pem: base64.b64encode(pem).decode()  # noqa: E731
        pair = pair or self.pki.admin
        context = {
            "endpoints": list(endpoints),
            "nodes": list(nodes),
            "ca": encode(ca or self.pki.authority.crt),
            "crt": encode(pair.crt),
            "key": encode(pair.key),
            **extra,
        }
        self.path.write_text(yaml.safe_dump({"context": "test", "contexts": {"test": context}}))

    def __call__(self, *words: str) -> Result:
        self.capture.readouterr()
        code = run([*words, "--talosconfig", str(self.path)] if self.path.exists() else list(words))
        output = self.capture.readouterr()
        return Result(code, output.out, output.err)


@pytest.fixture
def client(tmp_path: Path, capfd: pytest.CaptureFixture[str], pki: Pki) -> Client:
    return Client(tmp_path / "talosconfig", capfd, pki)


@pytest.fixture
def talosctl(client: Client, node: FakeNode) -> Client:
    """A client of the fake node, with two nodes behind it."""
    client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2", "10.0.0.3"])
    return client


@pytest.fixture
def expired(pki: Pki) -> PemPair:
    import datetime

    start = datetime.datetime.now(datetime.UTC) - timedelta(days=3)
    return pki.authority.issue(
        organizations=["os:admin"],
        usages=Usage.CLIENT,
        key_type=KeyType.ED25519,
        not_before=start,
        ttl=timedelta(days=1),
    )


__all__ = ["GRPCError", "Status"]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the person's own files."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("TALOSCONFIG", "TALOS_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home
