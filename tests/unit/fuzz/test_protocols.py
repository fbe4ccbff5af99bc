"""What the other ends of connections send: it is taken, or refused in the one way it may be, and soon."""

import asyncio
import base64
import http.client
import io
import json
import socket
import threading
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast, override

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from google.protobuf.message import DecodeError
from tests.harness.registry import Store, make_archive
from tests.unit.machined.containerd.twin import MemoryContainerd
from tests.unit.rpc.port.world import Transport

from talos.api.discovery.cluster_pb2 import AffiliateUpdateRequest
from talos.api.rpc import RpcError
from talos.discovery.clusters import Clusters
from talos.discovery.limits import FullError, InvalidRequestError, check_update, seconds_of
from talos.images.registry.hosts import RegistryError
from talos.images.registry.http import Abort, Client, check_status
from talos.images.registry.http import request as send_request
from talos.kubed.serving_request import GROUP, SIGNER, USER_PREFIX, NodeNames, find_node, find_problem
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.kubernetes.watch import Watch, check_event
from talos.machined.containerd.archive import import_archive
from talos.machined.containerd.client import Containerd
from talos.pki.csr import make_csr
from talos.pki.keys import KeyType, make_key
from talos.rpc.http2.backend import ASYNCIO
from talos.rpc.http2.client import ClientConnection
from talos.rpc.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    Kind,
    make_frame,
    make_reset,
    make_window_update,
)
from talos.rpc.http2.headers import encode_headers
from talos.system.errors import UserError
from talos.timed.nts.key_exchange import Keys
from talos.timed.nts.records import REQUEST, Granted, parse_reply
from talos.timed.nts.session import NtsProtection
from talos.timed.nts.siv import encrypt

from .test_parsers import AUTHORITY
from .trial import Parser, check_parser

KEYS = Keys(to_server=bytes(32), to_client=bytes(range(32)), granted=Granted(cookies=()))
GRANT = b"".join(
    kind.to_bytes(2) + len(body).to_bytes(2) + body
    for kind, body in (
        (0x8001, b"\0\0"), (0x8004, b"\0\x0f"), (5, b"c" * 100), (5, b"d" * 100),
        (6, b"ntp.example"), (7, b"\x00\x7b"), (0x8000, b""),
    )
)  # fmt: skip
CSR = make_csr(make_key(KeyType.P256), common_name=f"{USER_PREFIX}a", organizations=[GROUP], dns_names=["a"])
KNOWN = NodeNames(dns_names=frozenset({"a"}), ips=frozenset({"10.0.0.1"}))
HEADERS = encode_headers(((":status", "200"), ("content-type", "application/grpc"), ("x-bin", "YQ")))
TRAILERS = encode_headers(
    (("grpc-status", "5"), ("grpc-message", "a%20b"), ("grpc-status-details-bin", "YQ"))
)
DAMAGED = encode_headers((("grpc-status", "5"), ("grpc-status-details-bin", "Y")))
REPLIES = [
    make_frame(Kind.SETTINGS, 0, 0, b"\0\3\0\0\0\x64\0\4\0\1\0\0") + make_frame(Kind.SETTINGS, ACK, 0, b""),
    make_frame(Kind.HEADERS, END_HEADERS, 1, HEADERS)
    + make_frame(Kind.DATA, 0, 1, b"\0\0\0\0\2ab")
    + make_frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, TRAILERS),
    make_window_update(0, 1000) + make_window_update(3, 1000) + make_frame(Kind.PING, 0, 0, bytes(8)),
    make_frame(Kind.HEADERS, END_HEADERS, 1, HEADERS)
    + make_frame(Kind.HEADERS, END_HEADERS | END_STREAM, 1, DAMAGED),
    make_frame(Kind.HEADERS, END_HEADERS, 3, encode_headers(((":status", "200"), ("x-bin", "Y")))),
    make_reset(3, 8) + make_frame(Kind.GOAWAY, 0, 0, b"\0\0\0\1\0\0\0\0late"),
]


def _open(data: bytes) -> None:
    """An NTP reply, whose authenticator hides what is fuzzed, and one that is fuzzed itself."""
    data = data[:60_000]
    protection = NtsProtection(KEYS, b"c" * 100, 2, lambda cookie: None)
    request = protection.seal(bytes(48))
    packet = b"\x24\1" + bytes(46) + request[48 : 48 + 36]
    sealed = encrypt(KEYS.to_client, data, (packet, b"N" * 16))
    field = (16).to_bytes(2) + len(sealed).to_bytes(2) + b"N" * 16 + sealed
    field += bytes(-len(field) % 4)
    protection.is_authentic(packet + b"\4\4" + (4 + len(field) & 0xFFFF).to_bytes(2) + field)
    protection.is_authentic(bytes(48) + data)


def _receive_replies(data: bytes) -> None:
    """What a server answers two calls with; it is refused by the connection's end."""

    async def run() -> None:
        connection = ClientConnection(max_message=4096)
        connection.connection_made(cast("asyncio.Transport", Transport()))
        calls = [connection.begin(((":method", "POST"), (":path", "/a.B/C")), ASYNCIO) for _ in range(2)]
        connection.data_received(data)
        for call in calls:
            with suppress(RpcError, TimeoutError):
                async with asyncio.timeout(0):
                    while await call.receive() is not None:
                        pass
            call.cancel()
        connection.abort()
        connection.connection_lost(None)
        await asyncio.sleep(0)
        assert all(call.status is not None for call in calls), "a call has no end"

    asyncio.run(run())


def _update(data: bytes) -> None:
    """What a node publishes, at the server."""
    request = AffiliateUpdateRequest.FromString(data)
    check_update(request)
    clusters = Clusters(lambda: 0.0)
    clusters.update(
        request.cluster_id,
        request.affiliate_id,
        request.affiliate_data,
        request.affiliate_endpoints,
        seconds_of(request.ttl),
    )
    assert len(clusters.find_affiliates(request.cluster_id)) == 1


def _approve(data: bytes) -> None:
    """What a kubelet puts into a request that the API has accepted."""
    spec = {
        "username": f"{USER_PREFIX}a",
        "groups": [GROUP],
        "signerName": SIGNER,
        "usages": ["digital signature", "server auth"],
        "request": base64.b64encode(data).decode(),
    }
    assert find_node({"spec": spec}) == "a"
    find_problem({"spec": spec}, "a", KNOWN)


def _sign(data: bytes) -> None:
    """A request whose DER is fuzzed."""
    pem = base64.encodebytes(data).decode()
    text = f"-----BEGIN CERTIFICATE REQUEST-----\n{pem}-----END CERTIFICATE REQUEST-----\n"
    AUTHORITY.sign(text.encode(), organizations=())


class Answered(KubernetesClient):
    """A client whose server answers everything with these bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._resources = {}
        self._host, self._port = "kubernetes", 443

    @override
    def _request(self, method: str, path: str, *_: Any, **__: Any) -> tuple[int, bytes]:
        return 200, self.data

    @property
    @override
    def headers(self) -> dict[str, str]:
        return {}

    @override
    def open(self, seconds: float = 0) -> http.client.HTTPSConnection:
        return cast("http.client.HTTPSConnection", Wire(self.data))


class Wire(http.client.HTTPConnection):
    """A connection on which an answer has arrived."""

    def __init__(self, data: bytes) -> None:
        super().__init__("kubernetes")
        self._data = data

    @override
    def connect(self) -> None:
        self.sock, other = socket.socketpair(socket.AF_UNIX)
        self.sock = cast("Any", Quiet(self.sock, self._data))
        other.close()


class Quiet:
    """A socket that takes everything and gives this."""

    def __init__(self, real: socket.socket, data: bytes) -> None:
        self._real = real
        self._data = data

    def setsockopt(self, *_: object) -> None: ...

    def sendall(self, *_: object) -> None: ...

    def makefile(self, *_: object, **__: object) -> io.BytesIO:
        return io.BytesIO(self._data)

    def close(self) -> None:
        self._real.close()


def _list(data: bytes) -> None:
    reply = Answered(data).call_now("GET", "/api/v1/nodes")
    assert isinstance(reply, dict)  # pyright: ignore[reportUnnecessaryIsInstance]


def _watch(data: bytes) -> None:
    for event in Watch(Answered(data)).read("/api/v1/nodes?watch=1"):
        check_event(event)


EVENT = {"type": "MODIFIED", "object": {"kind": "Node", "metadata": {"name": "a", "resourceVersion": "7"}}}
ERROR = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
EVENTS = b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(json.dumps(one).encode() + b"\n" for one in (EVENT, ERROR))
LIST = json.dumps({"kind": "NodeList", "metadata": {"resourceVersion": "7"}, "items": [EVENT["object"]]})

PARSERS: Mapping[str, Parser] = {
    "NTS records": Parser(parse=parse_reply, seeds=[GRANT, REQUEST], refusals=(ValueError,)),
    "reply of NTS": Parser(
        parse=_open, seeds=[b"\2\4\0\x68" + b"n" * 100, b"\1\4\0\x24" + bytes(32)], refusals=(), examples=1000
    ),
    "replies of HTTP/2": Parser(
        parse=_receive_replies,
        seeds=[b"".join(REPLIES), *(REPLIES[0] + one for one in REPLIES)],
        refusals=(),
        examples=500,
    ),
    "affiliate at the discovery server": Parser(
        parse=_update,
        seeds=[
            AffiliateUpdateRequest(
                cluster_id="c", affiliate_id="a", affiliate_data=b"x", affiliate_endpoints=[b"y"]
            ).SerializeToString()
        ],
        refusals=(DecodeError, InvalidRequestError, FullError),
    ),
    "request of a kubelet": Parser(parse=_approve, seeds=[CSR], refusals=(), examples=500),
    "PKCS10": Parser(
        parse=_sign, seeds=[x509.load_pem_x509_csr(CSR).public_bytes(Encoding.DER)], examples=500
    ),
    "Kubernetes list": Parser(parse=_list, seeds=[LIST.encode(), b"not ready"], refusals=(KubernetesError,)),
    "Kubernetes watch": Parser(parse=_watch, seeds=[EVENTS], refusals=(KubernetesError,), examples=1000),
}


@pytest.mark.parametrize("name", PARSERS)
def test_protocol(name: str) -> None:
    check_parser(PARSERS[name])


def test_an_archive_of_images() -> None:
    """Whatever it is, nothing that was only needed on the way is left."""
    store = Store()
    store.add_image("a:1", {"file": b"x"})
    seed = make_archive(store, {"example.org/a:1": "a:1"})

    async def load(data: bytes) -> None:
        memory = MemoryContainerd()

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(data), 1000):
                await trio.lowlevel.checkpoint()
                yield data[start : start + 1000]

        try:
            await import_archive(Containerd(cast("Any", memory), "system"), chunks(), root="/")
        finally:
            assert not memory.pending

    check_parser(
        Parser(
            parse=lambda data: trio.run(load, data),
            seeds=[seed],
            refusals=(UserError, RpcError),
            examples=200,
        )
    )


@contextmanager
def answering() -> Generator[tuple[int, list[bytes]]]:
    """A server that answers whatever comes with the bytes of the list, and ends the connection."""
    answers = [b""]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        connection.recv(65536)
                        connection.sendall(answers[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], answers
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_the_answer_of_a_registry() -> None:
    client = Client(context=lambda host: pytest.fail(f"TLS for {host}"), environment={}, silence=30)
    with answering() as (port, answers):

        def receive(data: bytes) -> None:
            answers[0] = data
            url = f"http://127.0.0.1:{port}/v2/a/manifests/1"
            response = send_request(url, client=client, headers={}, abort=Abort())
            try:
                check_status(response)
                response.read_all(4096)
            finally:
                response.close()

        seeds = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            b'HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer realm="https://a/t"\r\n\r\n',
            b"HTTP/1.1 503 Later\r\nRetry-After: 5\r\n\r\n",
        ]
        check_parser(Parser(parse=receive, seeds=seeds, refusals=(RegistryError,), examples=500))
