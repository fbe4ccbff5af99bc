"""A log of a node, as it grows: for the page of one node that is open."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import open_session
from talos.client.target import Target
from talos.system.errors import UserError
from talos.talosctl.client.logs import read_kernel_log, read_log
from talos.talosctl.dashboard.summary import clean

KERNEL = "kernel"
"""The name of the kernel's log beside those of services."""
TAIL = 200
"""Lines of a service's log to begin with; the kernel's is sent whole."""
MAX_LINE = 2000
"""Characters of a line."""


async def follow_log(target: Target, node: str, name: str) -> AsyncGenerator[dict[str, Any]]:
    """Lines of a log, the oldest first; the last ones have the reason why there are no more."""
    try:
        async with open_session(target) as session:
            if name == KERNEL:
                pieces = read_kernel_log(session, node, follow=True)
            else:
                pieces = read_log(session, node, name, follow=True, tail=TAIL)
            async with aclosing(pieces), aclosing(split_lines(pieces)) as parts:
                async for lines in parts:
                    yield {"lines": lines}
    except (RpcError, UserError) as error:
        yield {"lines": [clean(describe(error, target))[:MAX_LINE]]}


async def split_lines(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[list[str]]:
    """The complete lines of each piece, and in the end what has no newline."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        # A line without an end is cut, not kept.
        rest = rest[: 4 * MAX_LINE]
        if lines:
            yield [_make_line(line) for line in lines]
    if rest:
        yield [_make_line(rest)]


def _make_line(line: bytes) -> str:
    return clean(line[: 4 * MAX_LINE].decode("utf-8", "replace"))[:MAX_LINE]
