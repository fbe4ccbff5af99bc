"""The end of an upgrade in the cluster: another control plane node may begin its own."""

from collections.abc import Awaitable, Callable

import trio

from talos.api.rpc import RpcError
from talos.machined.upgrade.upgrader import Upgrader
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.system.logging import Log
from talos.upgrade.state import PENDING

RETRY = 5.0
"""Seconds until etcd is asked again."""
_ETCD = "etcd"


class UpgradeLockController(Controller):
    """Service → the lock of upgrades is given back, after a verdict and after every boot without a trial."""

    name = "runtime.UpgradeLockController"
    inputs = (Input(kinds.SERVICE, id=_ETCD),)

    def __init__(self, upgrader: Upgrader, end: Callable[[], Awaitable[None]], log: Log) -> None:
        self._upgrader = upgrader
        self._end = end
        self._log = log
        self._may_hold = True

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the upgrades until cancelled."""
        self._upgrader.listen(runtime.queue_reconcile)
        while True:
            await runtime.wait_for_round()
            if not self._upgrader.has_begun:
                continue
            if self._upgrader.current.phase in PENDING:
                self._may_hold = True
            elif self._may_hold and await self._is_well(runtime):
                await self._give_back()
                self._may_hold = False
            runtime.reset_backoff()

    async def _is_well(self, runtime: ControllerRuntime) -> bool:
        service = await runtime.get_or_none(kinds.SERVICE, _ETCD)
        return service is not None and service.spec.healthy

    async def _give_back(self) -> None:
        while True:
            try:
                await self._end()
            except (RpcError, OSError) as error:
                self._log.once("the lock of upgrades is still held", reason=str(error))
                await trio.sleep(RETRY)
            else:
                return
