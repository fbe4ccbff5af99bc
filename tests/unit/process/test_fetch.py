"""Requests with a document."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.harness.serving import serving

from talos.process.fetch import Request, send


def test_a_document_is_posted() -> None:
    received: list[tuple[str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers["Content-Type"], body))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler), None) as server:
        url = f"http://127.0.0.1:{server.server_port}/a?b=c"
        answer = send(Request(url=url, headers={"Content-Type": "text/xml"}, method="POST", body=b"<A/>"))
    assert answer.data == b"ok"
    assert received == [("/a?b=c", "text/xml", b"<A/>")]
