"""An election among control plane nodes: one holds a key of etcd under a lease that it keeps alive."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import trio

from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.resource.state import StateError
from talos.system.logging import Log

LEASE_TTL = 10
"""How long after the leader's end another node may take its place."""
KEEP_ALIVE_INTERVAL = 3.0  # seconds
"""Between two signs of life of the leader, and between two checks of the others."""
EXPIRY_MARGIN = 3.0
"""How much earlier than its lease ends a leader without answers of etcd gives up: there are never two."""
RETRY_INTERVAL = 5.0  # seconds
LEASE_RETRY_INTERVAL = 1.0  # seconds
"""Seconds between two attempts to renew or end the lease."""
RESIGN_TIMEOUT = 3.0  # seconds
"""How long a leader tries to end its lease, which ends by itself then."""


class Store(Protocol):
    """What an election needs of etcd. Failures are RpcError."""

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """Compare, then do one of two lists of operations, all at once."""
        ...

    async def grant_lease(self, seconds: int) -> int:
        """A lease."""
        ...

    async def keep_lease(self, lease: int) -> int:
        """Keep a lease alive once; its remaining seconds, 0 when it has ended."""
        ...

    async def revoke_lease(self, lease: int) -> None:
        """End a lease and its keys."""
        ...


type Report = Callable[[bool], Awaitable[None]]
"""Is called with whether this node leads, when that changes."""
type OpenStore = Callable[[], AbstractAsyncContextManager[Store]]


class Election:
    """One node's part in one election."""

    def __init__(
        self,
        key: bytes,
        candidate: str,
        open_store: OpenStore,
        report: Callable[[bool], Awaitable[None]],
        log: Log,
    ) -> None:
        self._key = key
        self._candidate = candidate.encode()
        self._open = open_store
        self._report = report
        self._log = log

    async def run(self) -> None:
        """Take part until cancelled; a leader resigns then."""
        while True:
            try:
                async with self._open() as store:
                    await self._campaign(store)
            except (RpcError, StateError, OSError) as error:
                text = getattr(error, "message", None) or str(error)
                name = self._key.decode()
                self._log.once(f"the election of {name} waits: {text}", key=name, level="info")
            await trio.sleep(RETRY_INTERVAL)

    async def _campaign(self, store: Store) -> None:
        while True:
            # A look writes nothing: a lease for each of them would load etcd for ever.
            free = (await store.txn(pb.TxnRequest(compare=[self._is_free()]))).succeeded
            if free:
                lease = await store.grant_lease(LEASE_TTL)
                put = pb.RequestOp(
                    request_put=pb.PutRequest(key=self._key, value=self._candidate, lease=lease)
                )
                won = await store.txn(pb.TxnRequest(compare=[self._is_free()], success=[put]))
                if won.succeeded:
                    await self._lead(store, lease)
                else:
                    await store.revoke_lease(lease)
            await trio.sleep(KEEP_ALIVE_INTERVAL)

    def _is_free(self) -> pb.Compare:
        return pb.Compare(key=self._key, target=pb.Compare.CREATE, result=pb.Compare.EQUAL, create_revision=0)

    async def _lead(self, store: Store, lease: int) -> None:
        """Lead until the lease can't be kept any more."""
        try:
            end = trio.current_time() + LEASE_TTL - EXPIRY_MARGIN
            await self._report(True)  # it may take most of this time
            while True:
                sent, remaining = trio.current_time(), 0
                with trio.move_on_at(end):
                    try:
                        remaining = await store.keep_lease(lease)
                    except RpcError:
                        # Another attempt, as long as the lease lasts.
                        await trio.sleep(LEASE_RETRY_INTERVAL)
                        continue
                if remaining <= 0:
                    return
                end = sent + LEASE_TTL - EXPIRY_MARGIN
                await trio.sleep(KEEP_ALIVE_INTERVAL)
        finally:
            with trio.CancelScope(shield=True):
                # First the address, then the key: the successor comes when it is gone here.
                await self._report(False)
                with trio.move_on_after(RESIGN_TIMEOUT):
                    await self._resign(store, lease)

    @staticmethod
    async def _resign(store: Store, lease: int) -> None:
        while True:
            try:
                await store.revoke_lease(lease)
            except (RpcError, OSError) as error:
                if isinstance(error, RpcError) and error.code == Code.NOT_FOUND:
                    return  # it has ended
            else:
                return
            await trio.sleep(LEASE_RETRY_INTERVAL)
