"""Between the two event loops of a daemon: asyncio is the host, trio its guest, in one thread.

grpc.aio and signals live on asyncio; handlers, supervision and controllers are trio
functions. What crosses is an awaited call in either direction and bounded queues, all of
which pass cancellation and back-pressure on.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, Self

import trio

from talos.system.logging import Log


class HostCancelledError(Exception):
    """An asyncio task ended cancelled although trio still waited for it."""


class GuestGoneError(Exception):
    """The trio side that should have answered is being torn down."""


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
                task.exception()  # taken note of: asyncio would complain that nobody did
            raise
        if task.cancelled():
            raise HostCancelledError
        return task.result()

    async def run[**P, R](
        self,
        nursery: trio.Nursery,
        function: Callable[P, Awaitable[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """From asyncio: run a trio function in a nursery and wait for its result.

        Cancelling the wait cancels the function. GuestGoneError when the nursery is closed
        or cancelled. Errors of the function come back here, they don't reach the nursery.
        """
        future: asyncio.Future[R] = self.loop.create_future()
        scope = trio.CancelScope()

        async def guest() -> None:
            try:
                with scope:
                    result = await function(*args, **kwargs)
                    if not future.done():
                        future.set_result(result)
            except Exception as error:  # noqa: BLE001 - it is handed to who waits
                if not future.done():
                    # A future can't carry StopIteration: it would end the coroutine that waits.
                    future.set_exception(
                        RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
                    )
            finally:
                if not future.done():
                    future.set_exception(GuestGoneError())

        try:
            nursery.start_soon(guest, name=getattr(function, "__qualname__", None))
        except RuntimeError:
            raise GuestGoneError from None
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            scope.cancel()
            if future.done() and not future.cancelled():
                future.exception()
            else:
                future.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise


class Inbox[T]:
    """A bounded queue from asyncio to trio. Iterate over it on the trio side."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._error: BaseException | None = None
        self._closed = False
        self._filled = trio.Event()
        self._room = asyncio.Event()

    async def put(self, item: T) -> None:
        """On asyncio: add an item, waiting for room."""
        while len(self._items) >= self._size:
            self._room.clear()
            await self._room.wait()
        self._items.append(item)
        self._filled.set()

    def close(self, error: Exception | None = None) -> None:
        """On asyncio: no item follows; the reader then gets the error, if there is one."""
        if not self._closed:
            self._closed, self._error = True, error
            self._filled.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise StopAsyncIteration
            self._filled = trio.Event()
            await self._filled.wait()
        item = self._items.popleft()
        self._room.set()
        return item


class Outbox:
    """A queue of messages from trio to asyncio, bounded in number and bytes.

    Iterate over it on the asyncio side.
    """

    def __init__(self, size: int, capacity: int) -> None:
        self._size = size
        self._capacity = capacity
        self._bytes = 0
        self._items: deque[bytes] = deque()
        self._closed = False
        self._filled = asyncio.Event()
        self._room = trio.Event()

    async def put(self, item: bytes) -> None:
        """On trio: add an item, waiting for room. One alone may be larger than the capacity."""
        while self._items and (len(self._items) >= self._size or self._bytes + len(item) > self._capacity):
            self._room = trio.Event()
            await self._room.wait()
        self._items.append(item)
        self._bytes += len(item)
        self._filled.set()

    def close(self) -> None:
        """On either side: no item follows."""
        self._closed = True
        self._filled.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._filled.clear()
            await self._filled.wait()
        item = self._items.popleft()
        self._bytes -= len(item)
        self._room.set()
        return item


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
