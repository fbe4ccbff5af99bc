"""The self-check of a system on trial: what was well before has to be well again, within a limit."""

from collections.abc import Callable, Sequence
from math import inf

import trio

from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.machined.upgrade.upgrader import NETWORK, Upgrader
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade.state import Phase, Upgrade

LIMIT = 300.0
"""Seconds from the start of the trial until everything has to be well."""
STABLE = 10.0
"""Seconds for which everything has to stay well."""
RETRY = 10.0
"""Seconds until the boot loader's config is written again, should that fail."""
REVERTED, TRIAL = "upgrade-reverted", "upgrade-trial"
"""Ids of the diagnostics."""


class SelfCheckController(Controller):
    """Service, NetworkStatus → the verdict on the system on trial, and Diagnostic."""

    name = "runtime.SelfCheckController"
    inputs = (Input(kinds.SERVICE), Input(*ids.NETWORK_STATUS))
    outputs = (Output(kinds.DIAGNOSTIC),)

    def __init__(self, upgrader: Upgrader, reboot: Callable[[], object], log: Log) -> None:
        self._upgrader = upgrader
        self._reboot = reboot
        self._log = log
        self._deadline = inf
        self._well_since = inf

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the trial; a machine that is not on trial only shows what the last one came to."""
        self._upgrader.listen(runtime.queue_reconcile)
        wait = inf
        while True:
            with trio.move_on_after(wait):
                await runtime.wait_for_round()
            state = self._upgrader.current
            unmet = await find_unmet(runtime, state.checks) if state.phase is Phase.TRIAL else []
            await _show(runtime, state, unmet)
            wait = await self._judge(unmet) if state.phase is Phase.TRIAL else inf
            runtime.reset_backoff()

    async def _judge(self, unmet: Sequence[str]) -> float:
        """Bless, revert, or return the seconds until it is time for either."""
        now = trio.current_time()
        self._deadline = min(self._deadline, now + LIMIT)
        if not unmet:
            self._well_since = min(self._well_since, now)
            if now - self._well_since < STABLE:
                return self._well_since + STABLE - now
            try:
                await self._upgrader.bless()
            except (UserError, OSError) as error:
                self._log.error("the system on trial can't be made the default", reason=str(error))
                return RETRY
            return inf
        self._well_since = inf
        if now < self._deadline:
            return self._deadline - now
        try:
            await self._upgrader.revert(f"self-check: after {LIMIT:.0f} s: {'; '.join(unmet)}")
        except (UserError, OSError) as error:
            self._log.error("the reason can't be kept in META", reason=str(error))
        self._reboot()
        return inf


async def find_unmet(runtime: ControllerRuntime, checks: Sequence[str]) -> list[str]:
    """What should be well and is not, each with what is the matter."""
    unmet: list[str] = []
    services = {resource.id: resource.spec for resource in await runtime.list(kinds.SERVICE)}
    for name in checks:
        if name == NETWORK:
            status = await runtime.get_or_none(*ids.NETWORK_STATUS)
            if status is None or not (status.spec.address_ready and status.spec.connectivity_ready):
                unmet.append("the network is not ready")
        elif (spec := services.get(name)) is None or not spec.running:
            unmet.append(f"service {name} does not run")
        elif not (spec.healthy or spec.unknown):
            unmet.append(f"service {name} is not healthy")
    return unmet


async def _show(runtime: ControllerRuntime, state: Upgrade, unmet: Sequence[str]) -> None:
    async with runtime.track_outputs():
        if state.phase is Phase.REVERTED:
            message = f"the upgrade from {state.previous_version} to {state.version} was reverted"
            await runtime.put(
                kinds.DIAGNOSTIC, REVERTED, DiagnosticSpec(message=message, details=[state.reason])
            )
        elif state.phase is Phase.TRIAL:
            message = f"{state.version} in slot {state.slot} is on trial"
            await runtime.put(kinds.DIAGNOSTIC, TRIAL, DiagnosticSpec(message=message, details=unmet))
