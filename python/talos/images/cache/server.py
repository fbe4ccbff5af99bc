"""A read-only registry (OCI distribution-spec, pull only) of a catalog's images, with bounds."""

import json
import re
import ssl
import sys
from collections.abc import Callable
from http import HTTPStatus
from socket import AF_INET6, SO_SNDBUF, SOL_SOCKET, socket
from typing import Any, override
from urllib.parse import parse_qs, urlsplit

from talos.images.cache.catalog import Catalog, Content, InvalidNameError
from talos.images.manifest import INDEX_TYPES
from talos.system.logging import make_printable
from talos.system.net.http_server import BoundedHandler, BoundedServer

MAX_CONNECTIONS = 256
"""By default. Each has a thread; a containerd that pulls three layers of two images at once has six."""
SEND_BUFFER = 128 * 1024
"""Bytes that wait in the kernel for a client that reads slowly; Linux's own limit is 4 MiB."""
SILENCE = 60.0
"""Seconds that a client may be silent."""
HEALTH = frozenset({"/v2", "/v2/", "/healthz"})
_JSON = "application/json"
_OBJECT = re.compile(
    r"/v2/(?P<name>[^?]+)/(?P<kind>manifests|blobs|referrers)/(?P<object>[\w.:-]+)", re.ASCII
)
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{0,18})", re.ASCII)

type Report = Callable[[str], None]


def write_error(line: str) -> None:
    """One line on the error output."""
    sys.stderr.write(f"{line}\n")


class RegistryServer(BoundedServer):
    """Serves a catalog; connections beyond the limit are closed at once."""

    def __init__(
        self,
        address: tuple[str, int],
        catalog: Catalog,
        tls: ssl.SSLContext | None = None,
        *,
        report: Report = write_error,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """``tls`` has the server's certificate; without it this is plain HTTP. ``report`` gets refusals."""
        self.catalog, self.report = catalog, report
        self.max_connections = self.max_per_client = max_connections
        if ":" in address[0]:
            self.address_family = AF_INET6
        super().__init__(address, _Handler)
        if tls is not None:
            # The handshake is the connection's own thread's: a silent client keeps no other one waiting.
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @override
    def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        """One line: clients without TLS, and those that vanish, are no defects of the server."""
        del request
        self.report(f"{client_address}: {sys.exception()}")


class _Handler(BoundedHandler):
    protocol_version = "HTTP/1.1"
    timeout = SILENCE

    @override
    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(SOL_SOCKET, SO_SNDBUF, SEND_BUFFER)

    @property
    def _registry(self) -> RegistryServer:
        assert isinstance(self.server, RegistryServer)
        return self.server

    def do_GET(self) -> None:  # noqa: N802 - its name in http.server
        """Answer with content."""
        self._answer()

    def do_HEAD(self) -> None:  # noqa: N802 - its name in http.server
        """Answer without content."""
        self._answer()

    @override
    def log_message(self, format: str, *args: object) -> None:
        # A line per pulled blob would fill the log; refusals are enough.
        pass

    def _answer(self) -> None:
        url = urlsplit(self.path)
        if url.path in HEALTH:
            self._send(HTTPStatus.OK, _JSON, b"{}")
            return
        match = _OBJECT.fullmatch(url.path)
        if match is None:
            self._refuse("UNSUPPORTED", url.path)
            return
        # A client adds the registry that a mirror stands for.
        registry = parse_qs(url.query).get("ns", [""])[-1]
        name, kind, wanted = match["name"], match["kind"], match["object"]
        catalog = self._registry.catalog
        try:
            if kind == "blobs":
                self._answer_with(catalog.find_blob(wanted), "BLOB_UNKNOWN", wanted)
                return
            found = catalog.find_manifest(registry, name, wanted)
        except InvalidNameError:
            self._refuse("NAME_INVALID", url.path, HTTPStatus.BAD_REQUEST)
            return
        if kind == "referrers" and found is not None:
            # Nothing refers to it here: without an answer a client without a network would fail.
            index: dict[str, Any] = {"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": []}
            self._send(HTTPStatus.OK, INDEX_TYPES[0], json.dumps(index).encode())
        else:
            self._answer_with(found, "MANIFEST_UNKNOWN", f"{name}:{wanted}")

    def _answer_with(self, content: Content | None, code: str, what: str) -> None:
        if content is None:
            self._refuse(code, what)
            return
        start, end = 0, content.size
        requested = _RANGE.fullmatch(self.headers.get("Range", ""))
        if requested is not None:
            start = int(requested[1])
            end = min(int(requested[2]) + 1, content.size) if requested[2] else content.size
        if start >= end and requested is not None:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{content.size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with content.path.open("rb") as file:
            self.send_response(HTTPStatus.OK if requested is None else HTTPStatus.PARTIAL_CONTENT)
            self.send_header("Content-Type", content.media_type)
            self.send_header("Content-Length", str(end - start))
            self.send_header("Docker-Content-Digest", content.digest)
            if requested is not None:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{content.size}")
            self.end_headers()
            if self.command == "HEAD" or start == end:
                return
            self.wfile.flush()
            try:
                self.connection.sendfile(file, content.offset + start, end - start)
            except (OSError, ValueError):
                self.close_connection = True

    def _refuse(self, code: str, what: str, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> None:
        body = json.dumps({"errors": [{"code": code, "message": what}]}).encode()
        self._send(status, _JSON, body)
        self._registry.report(f"{self.client_address[0]}: {code}: {make_printable(what)}")

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
