"""A page of the machines that boot, on the loopback interface; without a script, the browser reloads it."""

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from talos.provision.pxe.machines import STAGES, Machine, Machines

HOST = "127.0.0.1"
INTERVAL = 3
"""Seconds after which the browser loads the page again."""
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --muted: light-dark(#525b65, #a2acb7); }
html { background: Canvas; color: CanvasText; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; font: 1rem/1.45 system-ui, sans-serif; }
article { margin: 1rem 0; padding: .75rem 1rem; border: 1px solid var(--line); border-radius: .5rem; }
h2 { margin: 0; font-size: 1.1rem; overflow-wrap: anywhere; }
p { margin: .3rem 0; }
progress { width: min(20rem, 100%); }
small, time { color: var(--muted); }
ol { margin: .5rem 0 0; padding: 0; list-style: none; }
li { overflow-wrap: anywhere; }
"""


def make_page(machines: Machines) -> str:
    """The page, with every machine that was seen."""
    return "\n".join(_make_parts(machines)) + "\n"


def _make_parts(machines: Machines) -> Iterator[str]:
    found = machines.list_all()
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta http-equiv="refresh" content="{INTERVAL}"><link rel="icon" href="data:,">'
    yield f"<title>{len(found)} machines</title><style>{_STYLE}</style></head><body>"
    yield "<h1>Machines that boot</h1>"
    if not found:
        yield "<p>No machine has sent a request yet.</p>"
    for machine in found:
        yield from _make_machine(machine)
    yield "</body></html>"


def _make_machine(machine: Machine) -> Iterator[str]:
    title = " ".join(filter(None, (machine.mac, machine.ip)))
    reached = STAGES[machine.stage - 1][1] if machine.stage else "has sent a request"
    yield f"<article><h2>{escape(title)}</h2>"
    if machine.names:
        yield f"<p><small>{escape(machine.names)}</small></p>"
    yield f"<p>{reached}, {machine.stage} of {len(STAGES)}</p>"
    yield f'<progress max="{len(STAGES)}" value="{machine.stage}" aria-label="{reached}"></progress><ol>'
    for at, text in reversed(machine.steps):
        clock = time.strftime("%H:%M:%S", time.localtime(at))
        yield f"<li><time>{clock}</time> {escape(text)}</li>"
    yield "</ol></article>"


@contextmanager
def serve_page(machines: Machines) -> Generator[str]:
    """The page's address until the end of the context. OSError when there is no free port."""

    class Handler(_Handler):
        pass

    server = ThreadingHTTPServer((HOST, 0), Handler)
    port = server.server_port
    Handler.machines, Handler.hosts = machines, (f"{HOST}:{port}", f"localhost:{port}")
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{HOST}:{port}/"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    machines: Machines
    hosts: tuple[str, ...]
    timeout = 10

    def do_GET(self) -> None:
        """Send the page, to a browser that was sent to this server by its own name."""
        if self.headers.get("Host", "").lower() not in self.hosts:
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name\n")
        elif self.path != "/":
            self._send(HTTPStatus.NOT_FOUND, "there is no such page\n")
        else:
            self._send(HTTPStatus.OK, make_page(self.machines))

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests of browsers are not those of machines that boot."""

    def _send(self, status: HTTPStatus, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
