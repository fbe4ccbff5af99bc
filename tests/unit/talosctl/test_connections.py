"""Connections that fail, and the reasons in the error text."""

import socket
import threading
import time
from pathlib import Path

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.machine import machine_pb2 as machine
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.talosctl.cli.exit import Exit

VERSION = "/machine.MachineService/Version"
ACKNOWLEDGED = 10.0  # seconds
"""For the kernel to acknowledge what was sent on the loopback interface, at most."""


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_refused(client: Client) -> None:
    port = closed_port()
    client.configure([f"127.0.0.1:{port}"], ["10.0.0.2", "10.0.0.3"])
    result = client("version")
    assert result.code == Exit.UNREACHABLE
    assert f"error: 10.0.0.2, 10.0.0.3: 127.0.0.1:{port}: connection refused" in result.err
    assert result.err.count("\n") == 1


def test_fails_over_to_an_endpoint_that_answers(client: Client, node: FakeNode) -> None:
    node.on(VERSION, Empty, machine.VersionResponse(messages=[machine.Version()]))
    client.configure([f"127.0.0.1:{closed_port()}", f"127.0.0.1:{node.port}"], [f"n{i}" for i in range(6)])
    result = client("version")
    assert result.code == 0, result.err
    assert len(node.seen) == 6


def test_foreign_ca(client: Client, node: FakeNode) -> None:
    other = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
    client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2"], ca=other.crt)
    result = client("version")
    assert result.code == Exit.UNREACHABLE
    assert "not signed by the CA of the talosconfig" in result.err
    assert "--insecure" in result.err


def test_foreign_client_certificate(client: Client, node: FakeNode) -> None:
    other = CertificateAuthority.generate(KeyType.ED25519, organizations=["other"])
    pair = other.issue(organizations=["os:admin"], usages=Usage.CLIENT, key_type=KeyType.ED25519)
    client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2"], pair=pair)
    result = client("version")
    assert result.code == Exit.REFUSED
    assert "does not trust this client certificate's issuer" in result.err


def test_expired_client_certificate(client: Client, node: FakeNode, expired: PemPair) -> None:
    client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2"], pair=expired)
    result = client("version")
    assert result.code == Exit.REFUSED
    assert "the client certificate has expired" in result.err


@pytest.mark.usefixtures("local_names")
def test_wrong_address(client: Client, node: FakeNode) -> None:
    # A name that leads to the server but is not in its certificate.
    client.configure([f"localhost.localdomain:{node.port}"], ["10.0.0.2"])
    result = client("version")
    assert result.code == Exit.UNREACHABLE
    assert "not valid for localhost.localdomain" in result.err
    assert "certSANs" in result.err


def test_insecure_against_a_configured_node(client: Client, node: FakeNode) -> None:
    result = client("version", "--insecure", "-n", f"127.0.0.1:{node.port}")
    assert result.code == Exit.REFUSED
    assert "wants a client certificate" in result.err


def test_plain_http(client: Client) -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = server.accept()
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    client.configure([f"127.0.0.1:{server.getsockname()[1]}"], ["10.0.0.2"])
    result = client("version")
    thread.join()
    server.close()
    assert result.code == Exit.UNREACHABLE
    assert "does not speak TLS" in result.err


def test_unresolvable_name(client: Client) -> None:
    client.configure(["no-such-host.invalid"], ["10.0.0.2"])
    result = client("version")
    assert result.code == Exit.UNREACHABLE
    assert 'the name "no-such-host.invalid" does not resolve' in result.err


def test_bad_endpoint(client: Client) -> None:
    client.configure(["http://10.0.0.1"], ["10.0.0.2"])
    result = client("version")
    assert result.code == 1
    assert 'the scheme "http" is not supported' in result.err


def test_the_kernel_probes_a_node_that_is_silent(client: Client, node: FakeNode) -> None:
    timers: list[str] = []

    def answer(_request: Message, _metadata: object) -> machine.VersionResponse:
        remote, deadline = f"0100007F:{node.port:04X}", time.monotonic() + ACKNOWLEDGED
        while True:
            rows = (row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:])
            # proc_net_tcp.rst: the timer that runs, 01 until all is acknowledged, 02 for keepalive, and the
            # jiffies that are left of it.
            timers[:] = [row[5] for row in rows if row[2] == remote and row[3] == "01"]
            if not any(timer.startswith("01") for timer in timers) or time.monotonic() > deadline:
                break
        return machine.VersionResponse(messages=[machine.Version()])

    node.on(VERSION, Empty, answer)
    client.configure([f"127.0.0.1:{node.port}"], ["10.0.0.2"])
    assert client("version").code == 0
    assert [timer.partition(":")[0] for timer in timers] == ["02"], timers
