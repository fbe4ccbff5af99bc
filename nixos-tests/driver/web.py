"""A web server on the host's loopback, which machines reach at 10.0.2.2."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from driver.arguments import HOST


class WebServer:
    """Serves texts and files by path, and records its requests."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.texts: dict[str, bytes] = {}
        self.kinds: dict[str, str] = {}
        self.files: dict[str, Path] = {}
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def do_HEAD(self) -> None:
                outer.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, path: str) -> str:
        """A path's address for machines."""
        return f"http://{HOST}:{self._server.server_port}{path}"

    def serve(self, path: str, text: str, kind: str = "") -> str:
        """Offer a text, of this media type; its address."""
        self.texts[path] = text.encode()
        self.kinds[path] = kind
        return self.url(path)

    def serve_file(self, path: str, file: Path) -> str:
        """Offer a file; its address."""
        self.files[path] = file
        return self.url(path)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        self.requests.append(request.path)
        path = urlsplit(request.path).path
        data = self.texts.get(path)
        if data is None and path in self.files:
            data = self.files[path].read_bytes()
        request.send_response(200 if data is not None else 404)
        request.send_header("Content-Length", str(len(data or b"")))
        if kind := self.kinds.get(path):
            request.send_header("Content-Type", kind)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data or b"")

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
