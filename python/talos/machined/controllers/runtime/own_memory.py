"""OwnMemoryController: a diagnostic while PID 1 has more memory than it may."""

import trio

from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.system.cgroups import MIB, Groups
from talos.system.logging import Log

OWN_GROUP = "init"
"""The control group of PID 1, and of its children until they join another."""

OWN_MEMORY = 1024 * MIB
"""Bytes of memory of that group, ten times what it needs. On a container the node is restarted when PID 1
grows beyond, before the rest of the host runs short. A machine's kernel never ends PID 1: it slows it down,
so that nothing else is ended for it, and the watchdog restarts the machine when PID 1 stands still.
"""

MIN_OWN = OWN_MEMORY // 2
"""Bytes that only PID 1 can give back. The rest are files that the kernel keeps in memory."""

INTERVAL = 30.0
"""Seconds between two checks."""

DIAGNOSTIC = "pid-1-memory"


class OwnMemoryController(Controller):
    """The events of PID 1's control group → Diagnostic, for as long as it is above its bound."""

    name = "runtime.OwnMemoryController"
    outputs = (Output(kinds.DIAGNOSTIC, shared=True),)

    def __init__(self, groups: Groups, log: Log) -> None:
        self._groups = groups
        self._log = log

    async def run(self, runtime: ControllerRuntime) -> None:
        """Look until cancelled."""
        seen = 0
        while True:
            found = self._groups.count_high(OWN_GROUP)
            used = self._groups.read_usage(OWN_GROUP).anonymous
            async with runtime.track_outputs():
                if found > seen and used >= MIN_OWN:
                    await self._report(runtime, used // MIB)
            seen = found
            runtime.reset_backoff()
            await trio.sleep(INTERVAL)

    async def _report(self, runtime: ControllerRuntime, used: int) -> None:
        message = f"PID 1 uses {used} MiB of memory, and is slowed down for it; reboot the machine"
        self._log.once("PID 1 uses too much memory", level="error", used=f"{used} MiB")
        spec = DiagnosticSpec(message=message, details=["what it was doing: talosctl logs machined"])
        await runtime.put(kinds.DIAGNOSTIC, DIAGNOSTIC, spec)
