"""Modules that are built into the kernel, as resources."""

from tests.unit.machined.controllers.running import running

from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.machined.controllers.runtime.kernel_modules import KernelModuleStatusController
from talos.resource import kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.resource.yaml.spec import spec_to_yaml
from talos.testing.files import MemoryFiles

FILES = {
    "/sys/module/zswap/parameters/enabled": "N\n",
    "/sys/module/nvidia/initstate": "live\n",
}


async def test_what_is_built_in_has_a_status() -> None:
    state = MemoryState()
    await put(state, kinds.SERVICE, "apid", ServiceSpec(healthy=True))
    async with running(state, KernelModuleStatusController(MemoryFiles(FILES))):
        shown = await wait_for(state, kinds.KERNEL_MODULE_STATUS, "zswap", lambda _: True)
        found = {one.id for one in await state.list(kinds.KERNEL_MODULE_STATUS)}
    assert {"wireguard", "br_netfilter"} < found
    assert "nvidia" not in found
    text = spec_to_yaml(kinds.KERNEL_MODULE_STATUS, shown.spec)
    assert text.startswith("type: built-in\n")
    assert "state: built-in\n" in text
