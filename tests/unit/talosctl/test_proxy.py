"""Connections through a proxy, and over several endpoints."""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

import pytest
from google.protobuf.empty_pb2 import Empty
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.machine import machine_pb2 as machine
from talos.talosctl.cli.exit import Exit

VERSION = "/machine.MachineService/Version"
type Greet = Callable[[socket.socket], tuple[str, int]]


def pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy(greet: Greet) -> Generator[int]:
    """A proxy for one connection, whose protocol is ``greet``."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            try:
                target = greet(client)
            except ConnectionError:
                return
            with socket.create_connection(target) as upstream:
                back = threading.Thread(target=pump, args=(upstream, client))
                back.start()
                pump(client, upstream)
                back.join()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join(10)
        listener.close()


def read_header(client: socket.socket) -> str:
    header = b""
    while not header.endswith(b"\r\n\r\n"):
        header += client.recv(1)
    return header.decode()


def http(client: socket.socket) -> tuple[str, int]:
    header = read_header(client)
    assert "Proxy-Authorization: Basic dXNlcjpwYXNz\r\n" in header
    host, _, port = header.split()[1].rpartition(":")
    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    return host, int(port)


def refusing_http(client: socket.socket) -> tuple[str, int]:
    read_header(client)
    client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
    raise ConnectionError


def socks(client: socket.socket) -> tuple[str, int]:
    assert client.recv(3) == b"\x05\x01\x00"
    client.sendall(b"\x05\x00")
    assert client.recv(4) == b"\x05\x01\x00\x01", "connect to an IPv4 address (RFC 1928)"
    host = socket.inet_ntoa(client.recv(4))
    port = int.from_bytes(client.recv(2), "big")
    client.sendall(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
    return host, port


@pytest.mark.parametrize(("scheme", "greet", "user"), [("http", http, "user:pass@"), ("socks5", socks, "")])
def test_through_a_proxy(client: Client, node: FakeNode, scheme: str, greet: Greet, user: str) -> None:
    node.on(VERSION, Empty, machine.VersionResponse(messages=[machine.Version()]))
    with proxy(greet) as port:
        url = f"{scheme}://{user}127.0.0.1:{port}"
        client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2"], proxy_url=url)
        result = client("version")
    assert result.code == 0, result.err


def test_a_proxy_that_refuses(client: Client, node: FakeNode) -> None:
    with proxy(refusing_http) as port:
        url = f"http://127.0.0.1:{port}"
        client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2"], proxy_url=url)
        result = client("version")
    assert result.code == Exit.UNREACHABLE
    assert "the proxy 127.0.0.1 refuses: 403 Forbidden" in result.err


def test_an_unknown_kind_of_proxy(client: Client, node: FakeNode) -> None:
    client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2"], proxy_url="ftp://127.0.0.1")
    result = client("version")
    assert result.code == 1
    assert '"ftp://127.0.0.1" is no known kind of proxy' in result.err


@pytest.mark.usefixtures("local_names")
def test_calls_take_the_endpoints_in_turn(client: Client, node: FakeNode, maintenance_node: FakeNode) -> None:
    for server in (node, maintenance_node):
        server.on(VERSION, Empty, machine.VersionResponse(messages=[machine.Version()]))
    ports = [f"127.0.0.1:{server.port}" for server in (node, maintenance_node)]
    # Both are dialled; the second one's certificate is of another CA, so all calls move to the first.
    client.configure(ports, [f"n{number}" for number in range(4)])
    assert client("version").code == 0
    assert (len(node.seen), len(maintenance_node.seen)) == (4, 0)
    # Two names of one server count as two endpoints and share the work.
    client.configure(
        [f"127.0.0.1:{node.port}", f"localhost:{node.port}"], [f"n{number}" for number in range(4)]
    )
    node.peers.clear()
    assert client("version").code == 0
    assert len(node.peers) == 2
