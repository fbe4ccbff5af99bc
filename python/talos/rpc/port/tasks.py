"""Tasks of asyncio that end with their owner."""

import asyncio
from collections.abc import Coroutine


class Tasks:
    """Keeps each task until it ends: asyncio itself has weak references only."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run something beside the caller."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait(self, timeout: float) -> None:  # noqa: ASYNC109 - as asyncio.wait has it
        """Wait so many seconds for the end of all."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    async def end(self) -> None:
        """Cancel all, and wait for their end."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
