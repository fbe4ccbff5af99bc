"""The fleet page's server: behind a secret path, on the loopback interface also for one host name.

Another user of the machine, and another pod of the cluster, does not have the path. A page of a stranger in
the same browser may have its own name lead here: it does not have the path either, and sends that name. In a
pod the name is not compared, as proxies pass on whatever name their own client used.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from talos.system.errors import UserError
from talos.talosctl.output.http import Reply, Request, start_server
from talos.talosctl.web.fleet import FleetWatch
from talos.talosctl.web.logs import KERNEL

MAX_READERS = 32
"""Connections at a time; each open page has one, for one node's events and a log two more."""
MIN_DELAY = 0.5
"""Seconds between two messages to a page."""
KEEP_ALIVE = 15.0
"""Seconds without a message after which an empty one shows that the connection lives."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
type FollowNode = Callable[[str], AsyncGenerator[dict[str, Any]]]
"""The events of a node."""
type FollowLog = Callable[[str, str], AsyncGenerator[dict[str, Any]]]
"""A log of a node, by the name of its service."""
_FOLDER = Path(__file__).parent
_FILES: Mapping[str, tuple[str, str]] = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
}


def check_loopback(host: str, flag: str) -> str:
    """The address of the loopback interface that a host means; UserError for another one."""
    address = "127.0.0.1" if host == "localhost" else host
    try:
        is_loopback = ip_address(address).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        hint = "use 127.0.0.1; from another machine: ssh -L"
        raise UserError(f'"{host}" is no address of the loopback interface', where=flag, hint=hint)
    return address


def make_token() -> str:
    """The secret that begins every path."""
    return secrets.token_urlsafe(24)


def has_token(request: Request, token: str) -> bool:
    """Whether a request's path begins with the secret."""
    return secrets.compare_digest(_split(request)[0].encode(), token.encode())


def refuse_token() -> Reply:
    """The reply to a request without it."""
    return _refuse(HTTPStatus.NOT_FOUND, "the address that was printed at the start is another one")


class PageServer:
    """Serves one fleet, if ``is_local`` on the loopback interface. ``token`` begins every path."""

    def __init__(
        self,
        fleet: FleetWatch,
        follow_node: FollowNode,
        follow_log: FollowLog,
        *,
        is_local: bool = True,
        token: str = "",
    ) -> None:
        self.token = token or make_token()
        self._fleet = fleet
        self._follow_node = follow_node
        self._follow_log = follow_log
        self._is_local = is_local
        self._hosts: Collection[str] = ()
        self._files = {name: (kind, (_FOLDER / file).read_bytes()) for name, (file, kind) in _FILES.items()}

    async def start(self, host: str, port: int) -> tuple[asyncio.Server, str]:
        """The server, and the page's address; an empty host is every address. UserError."""
        try:
            server = await start_server(self.answer, host, port, connections=MAX_READERS)
        except OSError as error:
            raise UserError(f"can't listen: {error.strerror}", where="--listen") from None
        port = server.sockets[0].getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        self._hosts = (f"{shown}:{port}", f"localhost:{port}")
        return server, f"http://{shown}:{port}/{self.token}/"

    async def answer(self, request: Request) -> Reply:
        """The reply to a request, also of another server than its own."""
        if self._is_local and request.headers.get("host", "").lower() not in self._hosts:
            return _refuse(HTTPStatus.MISDIRECTED_REQUEST, "this server has another name")
        if not has_token(request, self.token):
            return refuse_token()
        _, name = _split(request)
        if name == "events":
            return _stream(self._follow())
        if documents := self._find_documents(name):
            return _stream(_send_events(documents))
        if name not in self._files:
            return _refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        kind, body = self._files[name]
        return Reply(type=kind, headers=HEADERS, body=body)

    def _find_documents(self, name: str) -> AsyncGenerator[dict[str, Any]] | None:
        """What is behind nodes/NODE and nodes/NODE/logs/NAME, where there is such a node and such a log."""
        match name.split("/"):
            case ["nodes", node] if self._fleet.has(node):
                return self._follow_node(node)
            case ["nodes", node, "logs", log] if self._fleet.has_service(node, log) or (
                log == KERNEL and self._fleet.has(node)
            ):
                return self._follow_log(node, log)
            case _:
                return None

    async def _follow(self) -> AsyncGenerator[bytes]:
        """Server-sent events: everything first, then what has changed."""
        seen = 0
        with self._fleet.reading():
            while True:
                seen, document = self._fleet.since(seen)
                yield _format(document)
                await asyncio.sleep(MIN_DELAY)
                while True:
                    try:
                        async with asyncio.timeout(KEEP_ALIVE):
                            await self._fleet.wait(seen)
                        break
                    except TimeoutError:
                        yield b":\n\n"


def _split(request: Request) -> tuple[str, str]:
    """The first part of a path, and what follows."""
    # A client may add a query, as kubectl does.
    token, _, name = request.path.partition("?")[0].removeprefix("/").partition("/")
    return token, name


async def _send_events(events: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[bytes]:
    async with aclosing(events):
        async for event in events:
            yield _format(event)


def _stream(events: AsyncGenerator[bytes]) -> Reply:
    return Reply(type="text/event-stream", headers=HEADERS, stream=events)


def _format(document: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(document, separators=(',', ':'))}\n\n".encode()


def _refuse(status: HTTPStatus, text: str) -> Reply:
    return Reply(status=status, headers=HEADERS, body=f"{text}\n".encode())
