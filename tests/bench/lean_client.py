"""A client that costs next to nothing: prepared frames over blocking TLS, as cheap as a compiled one."""

import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.harness.credentials import API_PORT

from talos.pki.certificate import PemPair
from talos.rpc.http2.frames import (
    ACK,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    MAX_WINDOW,
    PREFACE,
    Kind,
    make_frame,
    make_window_update,
)
from talos.rpc.http2.headers import NO_TABLE, encode_headers

_HEAD = struct.Struct(">HBBBI")
_EMPTY_REQUEST = b"\0\0\0\0\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Times in milliseconds; ``client`` is the processor time that this process used for a call."""

    median: float
    p99: float
    rate: float
    client: float


class LeanClient:
    """One connection; a call is one write, and its reply is recognized by the flag that ends it."""

    def __init__(self, stream: socket.socket, method: str) -> None:
        self._stream = stream
        self._block = encode_headers(
            (
                (":method", "POST"),
                (":scheme", "https"),
                (":path", method),
                (":authority", "bench"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
            )
        )
        self._next = 1
        self._rest = b""
        settings = make_frame(Kind.SETTINGS, 0, 0, b"")
        stream.sendall(PREFACE + settings + make_window_update(0, MAX_WINDOW - DEFAULT_WINDOW))
        self._begun: dict[int, float] = {}
        self._first = NO_TABLE

    def begin(self) -> bytes:
        """The frames of another call."""
        number, self._next = self._next, self._next + 2
        block, self._first = self._first + self._block, b""
        self._begun[number] = time.perf_counter()
        return make_frame(Kind.HEADERS, END_HEADERS, number, block) + make_frame(
            Kind.DATA, END_STREAM, number, _EMPTY_REQUEST
        )

    def send(self, data: bytes) -> None:
        """Send frames."""
        self._stream.sendall(data)

    def finished(self) -> list[float]:
        """Wait for data; the seconds that each call took which has ended with it."""
        data = self._rest + self._stream.recv(65536)
        assert len(data) > len(self._rest), "the connection was closed"
        position, took, now = 0, list[float](), time.perf_counter()
        while len(data) - position >= _HEAD.size:
            high, low, kind, flags, number = _HEAD.unpack_from(data, position)
            end = position + _HEAD.size + (high << 8 | low)
            if end > len(data):
                break
            if kind == Kind.SETTINGS and not flags & ACK:
                self.send(make_frame(Kind.SETTINGS, ACK, 0, b""))
            elif kind == Kind.HEADERS and flags & END_STREAM:
                took.append(now - self._begun.pop(number))
            assert kind not in {Kind.GOAWAY, Kind.RST_STREAM}, data[position:end]
            position = end
        self._rest = data[position:]
        return took

    def measure(self, in_flight: int, calls: int) -> Figures:
        """Call so often, so many at a time."""
        took: list[float] = []
        begin, used = time.perf_counter(), time.process_time()
        self.send(b"".join(self.begin() for _ in range(in_flight)))
        begun = in_flight
        while len(took) < calls:
            ended = self.finished()
            took += ended
            more = min(len(ended), calls - begun)
            begun += more
            if more:
                self.send(b"".join(self.begin() for _ in range(more)))
        total, used = time.perf_counter() - begin, time.process_time() - used
        took.sort()
        return Figures(
            median=took[len(took) // 2] * 1e3,
            p99=took[int(len(took) * 0.99)] * 1e3,
            rate=len(took) / total,
            client=used / len(took) * 1e3,
        )


@contextmanager
def connect(host: str, authority: bytes, client: PemPair, method: str) -> Generator[LeanClient]:
    """A client of a node's API."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.decode())
    context.set_alpn_protocols(["h2"])
    with tempfile.NamedTemporaryFile() as file:
        file.write(client.crt + client.key)
        file.flush()
        context.load_cert_chain(file.name)
    with socket.create_connection((host, API_PORT)) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(plain, server_hostname=host) as stream:
            yield LeanClient(stream, method)
