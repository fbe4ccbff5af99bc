"""A node with real TLS and made-up answers, and talosctl run in this process."""

import asyncio
import base64
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from google.protobuf.message import DecodeError, Message
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase, StatusDetailsCodecBase
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream
from tests.harness.tls import make_server_tls

from talos.api.google.rpc.status_pb2 import Status as StatusDetails
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair
from talos.talosctl.main import run


class Codec(CodecBase):
    __content_subtype__ = "proto"  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType] - grpclib reads an attribute

    def encode(self, message: Any, message_type: Any) -> bytes:
        return cast("Message", message).SerializeToString()

    def decode(self, data: bytes, message_type: Any) -> Any:
        try:
            return message_type.FromString(data)
        except DecodeError as error:
            raise GRPCError(Status.INTERNAL, "no such message") from error


class DetailsCodec(StatusDetailsCodecBase):
    def encode(self, status: Status, message: str | None, details: Any) -> bytes:
        packed = StatusDetails(code=status.value, message=message or "")
        for detail in details or ():
            packed.details.add().Pack(detail)
        return packed.SerializeToString()

    def decode(self, status: Status, message: str | None, data: bytes) -> Any: ...


type Answer = Message | Sequence[Message] | GRPCError
type Answers = Callable[[Any, Mapping[str, str]], AsyncIterator[Message] | Answer]


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
    seen: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    peers: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """The other ends of the connections that calls came by."""
    port: int = 0

    def on(
        self,
        method: str,
        request: type[Message],
        answer: Answers | Answer,
        *,
        stream: bool = False,
        uploads: bool = False,
    ) -> None:
        """Answer a method; a function is given the request, the last one of an upload, and the metadata."""
        function: Answers = answer if callable(answer) else (lambda _request, _metadata: answer)
        self.routes[method] = Route(request, function, stream, uploads)

    def __mapping__(self) -> Mapping[str, Handler]:
        return {
            path: Handler(
                self._handler(path, route),
                Cardinality.STREAM_UNARY
                if route.takes_stream
                else Cardinality.UNARY_STREAM
                if route.is_stream
                else Cardinality.UNARY_UNARY,
                route.request,
                Message,
            )
            for path, route in self.routes.items()
        }

    def _handler(self, path: str, route: Route) -> Callable[[Stream[Any, Any]], Awaitable[None]]:
        async def handle(stream: Stream[Any, Any]) -> None:
            assert stream.peer is not None
            self.peers.add(cast("tuple[str, int]", stream.peer.addr()))
            request = await stream.recv_message()
            pairs = cast("Mapping[str, Any]", stream.metadata or {})
            metadata = {key: str(value) for key, value in pairs.items()}
            self.seen.append((path, metadata.get("node", ""), request))
            while route.takes_stream and (following := await stream.recv_message()) is not None:
                request = following
                self.seen.append((path, metadata.get("node", ""), request))
            answer: Any = self.routes[path].answer(request, metadata)
            if isinstance(answer, GRPCError):
                raise answer
            if isinstance(answer, Message):
                await stream.send_message(answer)
            elif hasattr(answer, "__aiter__"):
                async for message in cast("AsyncIterator[Message]", answer):
                    await stream.send_message(message)
            else:
                for message in cast("Sequence[Message]", answer):
                    await stream.send_message(message)

        return handle

    def context(self, folder: Path) -> ssl.SSLContext:
        context = make_server_tls(folder, self.server_pair, clients=self.ca or b"")
        if self.alpn:
            context.set_alpn_protocols(["h2"])
        return context

    def serve(self, folder: Path) -> Iterator["FakeNode"]:
        ready = threading.Event()
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        loop = asyncio.new_event_loop()
        stop = asyncio.Event()

        async def main() -> None:
            server = Server([], codec=Codec(), status_details_codec=DetailsCodec())
            server._mapping = _Routes(self)  # pyright: ignore[reportPrivateUsage] - else it is copied now
            await server.start(sock=listener, ssl=self.context(folder))
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
        proxy_url: str = "",
    ) -> None:
        def encode(pem: bytes) -> str:
            return base64.b64encode(pem).decode()

        pair = pair or self.pki.admin
        context = {
            "endpoints": list(endpoints),
            "nodes": list(nodes),
            "ca": encode(ca or self.pki.authority.crt),
            "crt": encode(pair.crt),
            "key": encode(pair.key),
            "proxy-url": proxy_url,
        }
        self.path.write_text(yaml.safe_dump({"context": "test", "contexts": {"test": context}}))

    def __call__(self, *argv: str) -> Result:
        self.capture.readouterr()
        code = run([*argv, "--talosconfig", str(self.path)] if self.path.exists() else list(argv))
        output = self.capture.readouterr()
        return Result(code, output.out, output.err)
