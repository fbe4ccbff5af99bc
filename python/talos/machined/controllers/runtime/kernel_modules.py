"""KernelModuleStatus: what the kernel has built in, by the names of modules."""

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.runtime_pb2 import KernelModuleStatusSpec
from talos.config.check.modules import BUILT_IN
from talos.machined.controllers.runtime.api_up import API_UP, wait_for_api
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.system.files import Files

FOLDER = "/sys/module"
"""Modules that were loaded, and those built in that have a parameter or a version."""
_LOADED = "initstate"
"""The file that only a module has that was loaded."""
_BUILT_IN = KernelModuleStatusSpec(
    type=enums.KERNEL_MODULE_TYPE_BUILTIN, state=enums.KERNEL_MODULE_STATE_BUILTIN
)


class KernelModuleStatusController(Controller):
    """/sys/module and the table of common modules → KernelModuleStatus. The kernel loads none later."""

    name = "runtime.KernelModuleStatusController"
    inputs = (API_UP,)
    outputs = (Output(kinds.KERNEL_MODULE_STATUS),)

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, runtime: ControllerRuntime) -> None:
        """Write all of them once, when the start does not need the processor any more."""
        await wait_for_api(runtime)
        for module in sorted(find_modules(self._files)):
            await runtime.put(kinds.KERNEL_MODULE_STATUS, module, _BUILT_IN)


def find_modules(files: Files) -> frozenset[str]:
    """What is built in: what the kernel shows, and what it has without a parameter or a version."""
    shown = (name for name in files.list(FOLDER) if not files.exists(f"{FOLDER}/{name}/{_LOADED}"))
    return frozenset(BUILT_IN).union(shown)
