"""That a command waits, and for which nodes, on a terminal."""

import asyncio
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager

from talos.talosctl.output import console

DELAY = 2.0
"""Seconds that pass before anything is shown."""
INTERVAL = 1.0
"""Seconds from one line to the next that replaces it."""
MAX_NAMES = 3
"""Nodes that a line names."""


@asynccontextmanager
async def showing_wait(pending: Collection[str]) -> AsyncGenerator[None]:
    """Show for how long those of ``pending``, which may become fewer, were waited for; nothing stays."""
    is_shown = False

    async def show() -> None:
        nonlocal is_shown
        began = time.monotonic()
        await asyncio.sleep(DELAY)
        while True:
            is_shown = True
            console.show_progress(format_wait(sorted(pending), time.monotonic() - began))
            await asyncio.sleep(INTERVAL)

    showing = asyncio.create_task(show())
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
        if is_shown:
            console.show_progress("")


def format_wait(nodes: list[str], seconds: float) -> str:
    """A line for nodes that are waited for."""
    more = f" and {len(nodes) - MAX_NAMES} more" if len(nodes) > MAX_NAMES else ""
    return f"waiting for {', '.join(nodes[:MAX_NAMES])}{more}: {seconds:.0f} s"
