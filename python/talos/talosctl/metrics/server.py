"""The answers of a server of metrics."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from talos.system.errors import UserError
from talos.talosctl.metrics.families import CONTENT_TYPE
from talos.talosctl.output.http import Answer, Reply, Request


def make_answer(collect: Callable[[], Awaitable[str]]) -> Answer:
    """Serve what is collected at each scrape at /metrics; without it, by a UserError, a scrape fails."""

    async def answer(request: Request) -> Reply:
        if request.path.partition("?")[0] != "/metrics":
            return Reply(status=HTTPStatus.NOT_FOUND, body=b"the metrics are at /metrics\n")
        try:
            return Reply(type=CONTENT_TYPE, body=(await collect()).encode())
        except UserError as error:
            return Reply(status=HTTPStatus.SERVICE_UNAVAILABLE, body=f"{error}\n".encode())

    return answer
