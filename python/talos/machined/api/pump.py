"""Blocking work for a stream: in a worker thread, one step at a time, with backpressure from the reader."""

from collections.abc import Awaitable, Callable, Generator

import trio

_THREADS = 8
"""At most so many threads wait for disks on behalf of the API; the rest of PID 1 has its own."""

_WALKERS = 2
"""At most so many of them walk through directories, which holds the interpreter's lock."""

_limiters: dict[int, trio.CapacityLimiter] = {}


def _limiter(size: int) -> trio.CapacityLimiter:
    if size not in _limiters:
        _limiters[size] = trio.CapacityLimiter(size)
    return _limiters[size]


async def in_thread[**P, R](function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that may wait for a disk."""
    return await trio.to_thread.run_sync(lambda: function(*args, **kwargs), limiter=_limiter(_THREADS))


async def pump[T](steps: Generator[T], use: Callable[[T], Awaitable[None]], *, walking: bool = False) -> None:
    """Pass on each item of the generator before the next one is produced.

    Nothing piles up while the reader doesn't read, and cancellation takes effect after the
    step that runs. The generator is closed in the end. One that is ``walking`` through
    directories shares a few threads with all others that do.
    """
    limiter = _limiter(_WALKERS if walking else _THREADS)
    try:
        while True:
            item = await trio.to_thread.run_sync(next, steps, _END, limiter=limiter)
            if item is _END:
                return
            await use(item)  # pyright: ignore[reportArgumentType] - not the end, so an item
    finally:
        with trio.CancelScope(shield=True):
            await in_thread(steps.close)


_END = object()
