"""This node's member of etcd: what clusterd does with it, and a bootstrap that the API accepts."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import trio
from google.protobuf.message import Message

from talos.api.internal.membership_pb2 import PlanResponse
from talos.api.rpc import DuplexTransport
from talos.machined.node import etcd_data
from talos.process.daemons import CLUSTERD
from talos.system.wakeup import Wakeup

MEMBERSHIP = "/talos.internal.Membership/"
"""What clusterd serves to PID 1."""


async def call_member[R: Message](
    connect: Callable[[str], AbstractAsyncContextManager[DuplexTransport]],
    method: str,
    request: Message,
    reply: type[R],
) -> R | None:
    """Have clusterd do something with the member; None of a node without data, which has none.

    RpcError; OSError when clusterd does not answer.
    """
    if not await trio.to_thread.run_sync(etcd_data.has_data):
        return None
    async with connect(CLUSTERD.socket) as transport:
        return await transport.unary(MEMBERSHIP + method, request, reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBootstrap:
    """A new cluster shall begin here as ``plan`` has it, with the uploaded snapshot if it restores one."""

    plan: PlanResponse


class EtcdControl:
    """Hands a bootstrap from the API to the service, which waits for it while it also tries to join."""

    def __init__(self) -> None:
        self._planned: PlannedBootstrap | None = None
        self._requested = Wakeup()

    def begin(self, planned: PlannedBootstrap) -> None:
        """Have the service bootstrap instead of waiting for a cluster to join."""
        self._planned = planned
        self._requested.set()

    async def wait(self) -> PlannedBootstrap:
        """Wait for an order and take it: what fails is not tried again by itself."""
        while self._planned is None:
            await self._requested.wait()
        planned, self._planned = self._planned, None
        return planned
