"""The lock of upgrades in a sequence that ends this boot: no other node may go down while this one does."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from talos.api.rpc import Code, RpcError
from talos.machined.node.ports.power import NodeLock
from talos.system.logging import Log

LOCK_TIMEOUT = 60.0
"""Seconds for taking the lock anew, which waits for 30 s for what may pass."""


class SequenceLock:
    """The lock during one sequence, which may take longer than the lock lasts: pods have up to 20 minutes."""

    def __init__(self, lock: NodeLock, log: Log) -> None:
        self._lock = lock
        self._log = log
        self._renewal = trio.CancelScope()
        self.refusal = ""
        """Why this node has to stay up; empty while it may go down."""

    @asynccontextmanager
    async def renewed(self) -> AsyncGenerator[None]:
        """Prolong the lock until :meth:`take`, or until the end of the block."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._renew)
            try:
                yield
            finally:
                self._renewal.cancel()

    async def _renew(self) -> None:
        with self._renewal:
            await self._lock.keep(self._log)

    async def take(self) -> None:
        """Take it anew, right before services stop: from then on it is not prolonged. RpcError."""
        self._renewal.cancel()
        try:
            with trio.fail_after(LOCK_TIMEOUT):
                await self._lock.take(self._log.info)
        except RpcError as error:
            self.refusal = error.reason
            raise
        except trio.TooSlowError:
            self.refusal = f"the lock of upgrades can't be had within {LOCK_TIMEOUT:.0f} s"
            raise RpcError(Code.DEADLINE_EXCEEDED, self.refusal) from None

    async def release(self) -> None:
        """Give it back, as this node stays up."""
        await self._lock.release()
