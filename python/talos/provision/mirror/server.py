"""A read-only registry (OCI distribution-spec, pull only) of images in archives, for one cluster's nodes."""

import argparse
import json
import re
import ssl
import sys
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET6, socket
from typing import override
from urllib.parse import parse_qs, urlsplit

from talos.provision.mirror.archives import Blob, Images, read_images
from talos.system.errors import UserError

MAX_CONNECTIONS = 256
"""A thread each; a containerd that pulls three layers of two images at once has six."""
_OBJECT = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+)/(?P<kind>manifests|blobs)/(?P<reference>[\w.:-]+)")


class MirrorServer(ThreadingHTTPServer):
    """Serves images; connections beyond the limit are closed at once."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        images: Images,
        tls: ssl.SSLContext | None = None,
        folder: Path | None = None,
    ) -> None:
        """``tls`` has the server's certificate; without it the mirror speaks plain HTTP.

        ``folder`` is where the images come from, if it may get others: they are read again when it changes.
        """
        self.images = images
        self._folder = folder
        self._changed = folder.stat().st_mtime_ns if folder else 0
        self._reading = threading.Lock()
        self._free = threading.Semaphore(MAX_CONNECTIONS)
        if ":" in address[0]:
            self.address_family = AF_INET6
        super().__init__(address, _Handler)
        if tls is not None:
            # The handshake is the connection's own thread's: a silent client keeps no other one waiting.
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def refresh(self) -> None:
        """Have the images that are in the folder now; while one is broken, those from before."""
        if self._folder is None:
            return
        with self._reading:
            changed = self._folder.stat().st_mtime_ns
            if changed != self._changed:
                try:
                    self.images = read_images(self._folder)
                except UserError as error:
                    sys.stderr.write(f"the images stay as they were: {error}\n")
                else:
                    self._changed = changed

    @override
    def process_request(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    @override
    def process_request_thread(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    @override
    def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        """One line: a client that speaks no TLS, or goes away, is no event of ours."""
        del request
        sys.stderr.write(f"{client_address}: {sys.exception()}\n")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds that a client may be silent

    @property
    def _mirror(self) -> MirrorServer:
        assert isinstance(self.server, MirrorServer)
        return self.server

    def do_GET(self) -> None:
        """Answer with content."""
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        """Answer without content."""
        self._answer(with_content=False)

    @override
    def log_message(self, format: str, *args: object) -> None:
        # A line per pulled blob would fill the cluster's folder; refusals are enough.
        pass

    def _answer(self, *, with_content: bool) -> None:
        url = urlsplit(self.path)
        if url.path == "/v2/":
            self._send(HTTPStatus.OK, "application/json", b"{}", with_content=with_content)
            return
        match = _OBJECT.fullmatch(url.path)
        if match is None:
            self._refuse("UNSUPPORTED", url.path, with_content=with_content)
            return
        # containerd adds the registry's host that the mirror stands for.
        host = parse_qs(url.query).get("ns", [""])[-1]
        name, kind, reference = match["name"], match["kind"], match["reference"]
        if kind == "manifests":
            self._mirror.refresh()
        images = self._mirror.images
        media_type = "application/octet-stream"
        if kind == "manifests":
            manifest = images.find(name, reference, host)
            if manifest is None:
                self._refuse("MANIFEST_UNKNOWN", f"{name}:{reference}", with_content=with_content)
                return
            reference, media_type = manifest.digest, manifest.media_type
        if reference not in images.blobs:
            self._refuse("BLOB_UNKNOWN", reference, with_content=with_content)
            return
        self._send_blob(reference, images.blobs[reference], media_type, with_content=with_content)

    def _send_blob(self, digest: str, blob: Blob, media_type: str, *, with_content: bool) -> None:
        with blob.path.open("rb") as file:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(blob.size))
            self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if not with_content:
                return
            self.wfile.flush()
            try:
                self.connection.sendfile(file, blob.offset, blob.size)
            except OSError:
                self.close_connection = True

    def _refuse(self, code: str, what: str, *, with_content: bool) -> None:
        body = json.dumps({"errors": [{"code": code, "message": what}]}).encode()
        self._send(HTTPStatus.NOT_FOUND, "application/json", body, with_content=with_content)
        sys.stderr.write(f"{self.client_address[0]}: {code}: {what!r}\n")

    def _send(self, status: HTTPStatus, kind: str, body: bytes, *, with_content: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_content:
            self.wfile.write(body)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal; the exit code."""
    parser = argparse.ArgumentParser(prog="mirror", description=__doc__)
    parser.add_argument("--addr", required=True, metavar="ADDRESS:PORT")
    parser.add_argument("--images", required=True, type=Path, help="a folder of OCI archives")
    options = parser.parse_args(argv)
    host, _, port = options.addr.rpartition(":")
    try:
        images = read_images(options.images)
        with MirrorServer((host, int(port)), images, folder=options.images) as server:
            server.serve_forever()
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0
