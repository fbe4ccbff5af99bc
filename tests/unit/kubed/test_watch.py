"""A watch hands over what is there and what changes, and ends with the reason."""

import json
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, cast, override
from urllib.parse import parse_qs, urlsplit

import pytest
import trio
from tests.harness.serving import serving

from talos.kubed.watch import follow
from talos.kubernetes.client import KubernetesClient, KubernetesError

type Connect = Callable[[], KubernetesClient]


def make_node(version: int) -> dict[str, Any]:
    return {"metadata": {"name": "one", "resourceVersion": str(version)}}


class Handler(BaseHTTPRequestHandler):
    """Answers each watch with the next of the server's scripts, and holds it open after the last."""

    protocol_version = "HTTP/1.1"

    @override
    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        assert query["fieldSelector"] == ["metadata.name=one"]
        server: Any = self.server
        server.versions.append(query["resourceVersion"][0])
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in server.scripts.pop(0):
            line = json.dumps(event).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        if not server.scripts:
            server.done.wait()
        self.wfile.write(b"0\r\n\r\n")


class Client:
    headers: ClassVar = {"Accept": "application/json"}

    def __init__(self, port: int) -> None:
        self._port = port

    async def pages(self, path: str) -> AsyncGenerator[dict[str, Any]]:
        assert path == "/api/v1/nodes?fieldSelector=metadata.name%3Done"
        await trio.lowlevel.checkpoint()
        yield {"metadata": {"resourceVersion": "5"}, "items": [make_node(3)]}

    def open(self, seconds: float) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, timeout=seconds)


@contextmanager
def api(*scripts: list[dict[str, Any]]) -> Generator[tuple[Client, Any]]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.scripts, server.versions, server.done = list(scripts), list[str](), threading.Event()
    with serving(server):
        try:
            yield Client(server.server_port), server
        finally:
            server.done.set()


async def test_changes_come_as_they_happen_and_a_watch_that_ends_goes_on_where_it_was() -> None:
    seen: list[tuple[str, str]] = []
    enough = trio.Event()

    async def handle(event: str, node: Any) -> None:
        await trio.lowlevel.checkpoint()
        seen.append((event, node["metadata"]["resourceVersion"]))
        if event == "DELETED":
            enough.set()

    changed = [{"type": "MODIFIED", "object": make_node(8)}, {"type": "BOOKMARK", "object": make_node(11)}]
    with api(changed, [{"type": "DELETED", "object": make_node(12)}]) as (client, server):
        async with trio.open_nursery() as nursery:
            connect = cast("Connect", lambda: client)
            nursery.start_soon(follow, connect, "/api/v1/nodes", "metadata.name=one", handle)
            await enough.wait()
            nursery.cancel_scope.cancel()
        assert seen == [("ADDED", "3"), ("MODIFIED", "8"), ("DELETED", "12")]
        assert server.versions == ["5", "11"]


async def test_a_version_that_is_gone_ends_it() -> None:
    async def handle(event: str, node: Any) -> None:
        del event, node
        await trio.lowlevel.checkpoint()

    gone = [{"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}]
    with api(gone) as (client, _), pytest.raises(KubernetesError) as caught:
        await follow(cast("Connect", lambda: client), "/api/v1/nodes", "metadata.name=one", handle)
    assert caught.value.status == 410
