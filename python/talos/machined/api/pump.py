"""Blocking work for a stream: done in a worker thread, one step at a time, at the reader's pace."""

from collections.abc import Awaitable, Callable, Generator

import trio

_THREADS = 8
"""At most so many threads wait for disks on behalf of the API; the rest of PID 1 has its own."""

_limiter: trio.CapacityLimiter | None = None


def _get_limiter() -> trio.CapacityLimiter:
    global _limiter
    if _limiter is None:
        _limiter = trio.CapacityLimiter(_THREADS)
    return _limiter


async def in_thread[**P, R](function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that may wait for a disk."""
    return await trio.to_thread.run_sync(lambda: function(*args, **kwargs), limiter=_get_limiter())


async def pump[T](steps: Generator[T], use: Callable[[T], Awaitable[None]]) -> None:
    """Hand on what the generator yields, each item before the next one is made.

    Nothing piles up while the reader doesn't read, and cancellation takes effect after the
    step that runs. The generator is closed in the end.
    """
    try:
        while True:
            item = await in_thread(next, steps, _END)
            if item is _END:
                return
            await use(item)  # pyright: ignore[reportArgumentType] - not the end, so an item
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(steps.close)


_END = object()
