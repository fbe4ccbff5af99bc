"""The lock of upgrades while this system is on trial, and its end: another control plane node may begin."""

from math import inf

import trio

from talos.api.rpc import RpcError
from talos.machined.node.ports.upgrades import Trial, UpgradeLock
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.system.logging import Log
from talos.upgrade.state import PENDING, Phase

RETRY = 5.0
"""Seconds until etcd is called again."""
RENEWAL = 300.0
"""Seconds after which a trial takes the lock anew, which lasts for 1,200: a self-check may take an hour."""
_ETCD = "etcd"


class UpgradeLockController(Controller):
    """Service → the lock of upgrades is held during a trial, and given back once there is a verdict.

    So is what an earlier boot took. What this one takes for an upgrade is not touched: that may begin
    meanwhile, and lasts beyond this boot.
    """

    name = "runtime.UpgradeLockController"
    inputs = (Input(kinds.SERVICE, id=_ETCD),)

    def __init__(self, upgrader: Trial, lock: UpgradeLock, log: Log) -> None:
        self._upgrader = upgrader
        self._lock = lock
        self._log = log

    async def run(self, runtime: ControllerRuntime) -> None:
        """Wait until this boot is off trial and etcd is healthy, give the lock back, and wait for ever."""
        self._upgrader.listen(runtime.queue_reconcile)
        while not (self._has_verdict() and await self._is_healthy(runtime)):
            await runtime.wait_for_round(await self._hold(runtime))
        await self._release()
        await trio.sleep_forever()

    def _has_verdict(self) -> bool:
        return self._upgrader.has_begun and self._upgrader.current.phase not in PENDING

    async def _is_healthy(self, runtime: ControllerRuntime) -> bool:
        service = await runtime.get_or_none(kinds.SERVICE, _ETCD)
        return service is not None and service.spec.healthy

    async def _hold(self, runtime: ControllerRuntime) -> float:
        """Hold the lock during a trial; the seconds until it is to be tried again."""
        if self._upgrader.current.phase is not Phase.TRIAL or not await self._is_healthy(runtime):
            return inf
        try:
            await self._lock.hold_on_trial()
        except (RpcError, OSError) as error:
            self._log.once("on trial without the lock of upgrades", reason=str(error))
            return RETRY
        return RENEWAL

    async def _release(self) -> None:
        while True:
            try:
                await self._lock.release_earlier()
            except (RpcError, OSError) as error:
                self._log.once("the lock of upgrades is still held", reason=str(error))
                await trio.sleep(RETRY)
            else:
                return
