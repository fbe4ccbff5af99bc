"""A boot that came up is confirmed: the slots' count of failed starts begins anew."""

import trio

from talos.machined.controllers.runtime.api_up import API_UP, wait_for_api
from talos.machined.node.ports.upgrades import Trial
from talos.resource.controller.controller import Controller, ControllerRuntime
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.upgrade.state import Phase

CONFIRM_DELAY = 300.0
"""Seconds after which a system that runs has come up, though its API has not: another slot would not help."""
RETRY = 60.0
"""Seconds until the boot loader's files are written again, should that fail."""


class BootConfirmationController(Controller):
    """Service → the slots' count of starts, once the API answers: a machine is repaired by it."""

    name = "runtime.BootConfirmationController"
    inputs = (API_UP,)

    def __init__(self, upgrader: Trial, log: Log) -> None:
        self._upgrader = upgrader
        self._log = log

    async def run(self, runtime: ControllerRuntime) -> None:
        """Wait until the system has come up and is off its trial, confirm that, and wait for ever."""
        self._upgrader.listen(runtime.queue_reconcile)
        with trio.move_on_after(CONFIRM_DELAY):
            await wait_for_api(runtime)
        while not self._is_settled():
            await runtime.wait_for_round()
        await self._confirm()
        await trio.sleep_forever()

    def _is_settled(self) -> bool:
        """Whether this system was started from a slot and is not on trial."""
        upgrader = self._upgrader
        return bool(upgrader.has_begun and upgrader.running) and upgrader.current.phase is not Phase.TRIAL

    async def _confirm(self) -> None:
        while True:
            try:
                await self._upgrader.confirm()
            except (UserError, OSError) as error:
                self._log.once("the count of starts can't be set back", reason=str(error))
                await trio.sleep(RETRY)
            else:
                return
