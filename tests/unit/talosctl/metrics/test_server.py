"""Metrics are at one path, collected at each scrape."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from talos.system.errors import UserError
from talos.talosctl.metrics.families import CONTENT_TYPE
from talos.talosctl.metrics.server import make_answer
from talos.talosctl.output.http import Reply, Request


def get(path: str, reason: str = "") -> Reply:
    async def collect() -> str:
        await asyncio.sleep(0)
        if reason:
            raise UserError(reason)
        return "text"

    return asyncio.run(_answer(path, collect))


async def _answer(path: str, collect: Callable[[], Awaitable[str]]) -> Reply:
    return await make_answer(collect)(Request(path=path, headers={}))


def test_they_are_at_one_path() -> None:
    reply = get("/metrics?x")
    assert (reply.status, reply.type, reply.body) == (HTTPStatus.OK, CONTENT_TYPE, b"text")
    assert get("/").status == HTTPStatus.NOT_FOUND


def test_a_scrape_that_fails_has_the_reason() -> None:
    reply = get("/metrics", "no node")
    assert (reply.status, reply.body) == (HTTPStatus.SERVICE_UNAVAILABLE, b"no node\n")
