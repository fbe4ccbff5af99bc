"""Metrics over HTTP, in Prometheus' text format."""

import asyncio
import json
from collections.abc import Callable

from talos.discovery.clusters import Counts
from talos.discovery.service import ClusterService

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_HEAD = 8 * 1024
TIMEOUT = 10.0
"""Bytes of a request's head, and seconds in which it arrives and the answer leaves."""

_GAUGES = {
    "clusters": "The current number of clusters in the state.",
    "affiliates": "The current number of affiliates in the state.",
    "endpoints": "The current number of endpoints in the state.",
    "subscriptions": "The current number of subscriptions in the state.",
}
_COLLECTED = {
    "gc_runs": "The number of GC runs.",
    "gc_clusters": "The total number of GC'ed clusters.",
    "gc_affiliates": "The total number of GC'ed affiliates.",
}


def format_metrics(counts: Counts, service: ClusterService) -> str:
    """Every metric; the names are those of the public service."""
    lines: list[str] = []

    def add(name: str, kind: str, about: str, samples: dict[str, int]) -> None:
        lines.extend((f"# HELP {name} {about}", f"# TYPE {name} {kind}"))
        lines.extend(f"{name}{labels} {value}" for labels, value in samples.items())

    for name, about in _GAUGES.items():
        add(f"discovery_state_{name}", "gauge", about, {"": getattr(counts, name)})
    for name, about in _COLLECTED.items():
        add(f"discovery_state_{name}_total", "counter", about, {"": getattr(counts, name)})
    add(
        "discovery_server_hello_requests_total",
        "counter",
        "Number of hello requests by client version.",
        {f"{{client_version={json.dumps(version)}}}": count for version, count in service.hellos.items()},
    )
    add(
        "discovery_server_refused_requests_total",
        "counter",
        "Number of refused requests by reason.",
        {f'{{reason="{reason}"}}': count for reason, count in service.refused.items()},
    )
    return "\n".join(lines) + "\n"


async def serve_metrics(host: str, port: int, make: Callable[[], str]) -> asyncio.Server:
    """Answer ``GET /metrics`` until the server is closed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_respond(head, make))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(answer, host or None, port, limit=MAX_HEAD)


def _respond(head: bytes, make: Callable[[], str]) -> bytes:
    method, _, rest = head.partition(b" ")
    target = rest.partition(b" ")[0].partition(b"?")[0]
    if target != b"/metrics":
        status, body = "404 Not Found", "metrics are at /metrics\n"
    elif method not in {b"GET", b"HEAD"}:
        status, body = "405 Method Not Allowed", "GET only\n"
    else:
        status, body = "200 OK", make()
    content = body.encode()
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {CONTENT_TYPE}",
        f"Content-Length: {len(content)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (b"" if method == b"HEAD" else content)
