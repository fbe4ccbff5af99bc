"""Between the two event loops of a daemon: asyncio is the host, trio its guest, in one thread.

TLS, HTTP/2 and signals live on asyncio; handlers, supervision and controllers are trio
functions. What crosses is an awaited call in either direction and bounded queues, all of
which pass cancellation and back-pressure on.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import trio

from talos.rpc.http2.backend import AsyncBackend
from talos.system.logging import Log

TRIO = AsyncBackend(event=trio.Event, sleep=trio.sleep)
"""How trio's functions wait for what arrives on asyncio."""


class HostCancelledError(Exception):
    """An asyncio task ended cancelled although trio still waited for it."""


class Bridge:
    """Calls across. Make it on asyncio, before trio starts."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def call[**P, R](
        self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """From trio: run an asyncio coroutine function and wait for its result.

        Cancelling the wait cancels the coroutine and waits until it has ended.
        """
        ended = trio.Event()
        task = self.loop.create_task(function(*args, **kwargs))
        task.add_done_callback(lambda _: ended.set())
        try:
            await ended.wait()
        except trio.Cancelled:
            task.cancel()
            with trio.CancelScope(shield=True):
                await ended.wait()
            if not task.cancelled():
                task.exception()  # retrieved, or asyncio logs that it never was
            raise
        if task.cancelled():
            raise HostCancelledError
        return task.result()


class Host(Protocol):
    """What a server or a channel needs of the process that it is in."""

    @property
    def bridge(self) -> Bridge:
        """The way between the process' two event loops."""
        ...

    @property
    def log(self) -> Log:
        """Where failures of handlers go."""
        ...
