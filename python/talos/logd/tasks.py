"""Tasks that follow a set of keys: one for each that is wanted, ended when it no longer is."""

from collections.abc import Awaitable, Callable, Hashable, Mapping

import trio


class TaskSet[K: Hashable]:
    """The running tasks of a controller."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: dict[K, trio.CancelScope] = {}

    def follow(self, wanted: Mapping[K, Callable[[], Awaitable[None]]]) -> None:
        """End the tasks of other keys, and start those that are missing."""
        for key in self._scopes.keys() - wanted.keys():
            self._scopes.pop(key).cancel()
        for key, run in wanted.items():
            if key not in self._scopes:
                scope = self._scopes[key] = trio.CancelScope()
                self._nursery.start_soon(self._run, scope, run)

    async def _run(self, scope: trio.CancelScope, run: Callable[[], Awaitable[None]]) -> None:
        with scope:
            await run()
