"""kmsd, which runs while there are requests for keys."""

from typing import override

import trio

from talos.machined.node.key_requests import KeyRequests
from talos.machined.node.ports.services import Services
from talos.process.daemons import KMSD
from talos.resource.controller.controller import Controller, ControllerRuntime

IDLE_TIMEOUT = 30.0
"""Seconds without a request after which it ends."""


class KeyDaemonController(Controller):
    """Starts and ends kmsd."""

    name = "block.KeyDaemonController"
    inputs = ()
    outputs = ()

    def __init__(self, requests: KeyRequests, services: Services) -> None:
        self._requests = requests
        self._services = services

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        del runtime
        while True:
            while self._requests.is_empty:
                await self._requests.changed.wait()
            self._services.start_soon([KMSD.name])
            await self._wait_until_idle()
            await self._services.halt(KMSD.name)

    async def _wait_until_idle(self) -> None:
        while True:
            with trio.move_on_after(IDLE_TIMEOUT) as scope:
                await self._requests.changed.wait()
            if scope.cancelled_caught and self._requests.is_empty:
                return
