"""Which debug containers there are: they end before the machine does, as they may use its filesystems."""

import os
from collections.abc import Generator
from contextlib import contextmanager

import trio

from talos.api.rpc import Code, RpcError

END_TIMEOUT = 10.0
"""Seconds for all of them to be removed, of those that the machine's end may take."""
_ENDING = "the machine is ending"


class DebugContainers:
    """Those whose calls are not over yet, by id."""

    def __init__(self) -> None:
        self._calls: dict[str, trio.CancelScope] = {}
        self._is_ending = False
        self._gone = trio.Event()

    @property
    def ids(self) -> frozenset[str]:
        """Those of all."""
        return frozenset(self._calls)

    @contextmanager
    def running(self) -> Generator[str]:
        """The id of a new one, which is there until the context ends; UNAVAILABLE when the machine ends."""
        if self._is_ending:
            raise RpcError(Code.UNAVAILABLE, _ENDING)
        name = f"debug-{os.urandom(8).hex()}"
        with trio.CancelScope() as call:
            self._calls[name] = call
            try:
                yield name
            finally:
                del self._calls[name]
                if self._is_ending and not self._calls:
                    self._gone.set()
        if call.cancelled_caught:
            raise RpcError(Code.UNAVAILABLE, _ENDING)

    async def end_all(self) -> None:
        """Refuse new ones, end the calls, and wait until nothing of their containers is left."""
        self._is_ending = True
        if not self._calls:
            return
        for call in self._calls.values():
            call.cancel()
        with trio.move_on_after(END_TIMEOUT):
            await self._gone.wait()
