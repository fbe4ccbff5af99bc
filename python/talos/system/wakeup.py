"""Two ways to wake tasks of a trio run that wait for a change."""

import trio


class Signal:
    """Wakes every task that waits at that moment; one that comes later waits for the next time.

    The waiting task looks at what has changed before it waits, so that nothing is missed.
    """

    def __init__(self) -> None:
        self._event = trio.Event()

    def notify(self) -> None:
        """Wake all tasks that wait now."""
        event, self._event = self._event, trio.Event()
        event.set()

    async def wait(self) -> None:
        """Wait for the next notification."""
        await self._event.wait()


class Wakeup:
    """Wakes one task, at once if it was set before; several settings are one."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """Wake the task now, or when it comes to wait."""
        self._event.set()

    def clear(self) -> None:
        """Forget that it was set; the task that waits goes on to wait."""
        if self._event.is_set():
            self._event = trio.Event()

    async def wait(self) -> None:
        """Wait until it is set, and clear it."""
        await self._event.wait()
        self._event = trio.Event()
