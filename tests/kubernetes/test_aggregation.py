"""A server behind the API server: its requests, their users, and that no other client can call it."""

import base64
import json
import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.harness.serving import serving
from tests.kubernetes.objects import make_head

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType

GROUP, VERSION, NAME = "tests.talos.dev", "v1", "aggregated"
PATH = f"/apis/{GROUP}/{VERSION}"
READY_TIMEOUT = 60.0  # seconds


class Answers(BaseHTTPRequestHandler):
    """Discovery, and the caller's identity for anything else."""

    def do_GET(self) -> None:
        if self.path == PATH:
            content: dict[str, Any] = {"kind": "APIResourceList", "apiVersion": "v1", "resources": []}
            content["groupVersion"] = f"{GROUP}/{VERSION}"
        else:
            connection = self.connection
            assert isinstance(connection, ssl.SSLSocket)
            subject: Any = (connection.getpeercert() or {}).get("subject", ())
            content = {
                "certificate": dict(pair for part in subject for pair in part),
                "user": self.headers.get_all("X-Remote-User"),
                "groups": self.headers.get_all("X-Remote-Group"),
            }
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


def make_server(context: ssl.SSLContext) -> ThreadingHTTPServer:
    """The server, on every address of this machine."""
    server = ThreadingHTTPServer(("", 0), Answers)
    server.daemon_threads = True
    server.block_on_close = False
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server


@pytest.fixture
def port(kubernetes: Kubernetes, tmp_path: Path) -> Iterator[int]:
    """Of a server that accepts the API server's certificate alone, and is registered with the cluster."""
    authority = CertificateAuthority.generate(KeyType.P256, common_name="aggregated")
    pair = authority.issue(dns_names=[f"{NAME}.default.svc"], usages=Usage.SERVER)
    (tmp_path / "tls.crt").write_bytes(pair.crt)
    (tmp_path / "tls.key").write_bytes(pair.key)
    # Where every such server reads whom to trust.
    (trust,) = kubernetes.get("configmap", "-n", "kube-system", "extension-apiserver-authentication")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    context.load_verify_locations(cadata=trust["data"]["requestheader-client-ca-file"])
    context.verify_mode = ssl.CERT_REQUIRED
    assert json.loads(trust["data"]["requestheader-allowed-names"]) == ["front-proxy-client"]
    with serving(make_server(context)) as server:
        register(kubernetes, server.server_port, authority.crt)
        yield server.server_port
        kubernetes.delete(f"apiservice/{VERSION}.{GROUP}", f"service/{NAME}", wait=True)


def register(kubernetes: Kubernetes, port: int, authority: bytes) -> None:
    """A service that leads to this machine, and the part of the API that is behind it."""
    ports = [{"name": "https", "port": 443, "targetPort": port}]
    slice_ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    labels = {"kubernetes.io/service-name": NAME}
    kubernetes.apply(
        {**make_head("Service", NAME), "spec": {"ports": ports}},
        {
            **make_head("EndpointSlice", NAME, version="discovery.k8s.io/v1", labels=labels),
            "addressType": "IPv4",
            "endpoints": [{"addresses": [str(kubernetes.cluster.info.gateway)]}],
            "ports": slice_ports,
        },
        {
            **make_head("APIService", f"{VERSION}.{GROUP}", version="apiregistration.k8s.io/v1"),
            "spec": {
                "group": GROUP,
                "version": VERSION,
                "groupPriorityMinimum": 1000,
                "versionPriority": 10,
                "caBundle": base64.b64encode(authority).decode(),
                "service": {"name": NAME, "namespace": "default", "port": 443},
            },
        },
    )


def test_another_server_answers_behind_the_api_server(kubernetes: Kubernetes, port: int) -> None:
    def call(*argv: str) -> Any:
        result = kubernetes.kubectl("get", "--raw", f"{PATH}/identity", *argv, check=False)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    found = eventually("it is called", call, seconds=READY_TIMEOUT, pause=0.5)
    assert found["certificate"] == {"commonName": "front-proxy-client"}
    assert found["user"] == ["admin"]
    assert "system:masters" in found["groups"]
    # The API server decides who may call, and passes on who does.
    refused = kubernetes.kubectl("get", "--raw", f"{PATH}/identity", "--as", "eve", check=False)
    assert "Forbidden" in refused.stderr, refused.stdout + refused.stderr
    acted = call("--as", "eve", "--as-group", "system:masters")
    assert acted["user"] == ["eve"]
    assert "system:masters" in acted["groups"]
    kubernetes.wait_for(f"apiservice/{VERSION}.{GROUP}", "condition=Available")

    # No other client has the certificate that it requires.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as raw,
        context.wrap_socket(raw) as connection,
        pytest.raises(ssl.SSLError, match=r"(?i)certificate required"),
    ):
        connection.recv(1)
