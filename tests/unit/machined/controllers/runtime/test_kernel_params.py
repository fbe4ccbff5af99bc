"""Kernel parameters from the config to the kernel and into the State."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from talos.api.resource import config_pb2
from talos.machined.controllers.runtime.kernel_params import (
    KernelParamConfigController,
    KernelParamSpecController,
)
from talos.machined.node.sysctls import KernelParams
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.proc.sysctl import KernelSysctls

SETTLE_TIMEOUT = 20.0
"""Seconds that a busy machine may take."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, value in {"proc/sys/kernel/panic": "0", "proc/sys/vm/swappiness": "60", "sys/a/b": "1"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return tmp_path


async def configure(state: MemoryState, sysctls: str, documents: str = "") -> None:
    text = f"version: v1alpha1\nmachine:\n  type: worker\n  sysctls: {sysctls}\n  sysfs: {{a.b: '7'}}\n"

    def change(spec: config_pb2.MachineConfigSpec) -> None:
        spec.yaml_marshalled = (text + documents).encode()

    await modify(state, *ids.MACHINE_CONFIG, change)


async def test_a_config_sets_params(root: Path) -> None:
    state, lines = MemoryState(), list[str]()
    params = KernelParams(KernelSysctls(root), {"proc.sys.kernel.panic": "10"})
    controllers = [
        KernelParamConfigController(),
        KernelParamSpecController(params, Log(write=lines.append)),
    ]

    async def settle(expected: Mapping[str, tuple[str, str, bool]]) -> None:
        """Wait for these statuses: the kernel is called in a thread."""
        found: Mapping[str, tuple[str, str, bool]] = {}
        with trio.move_on_after(SETTLE_TIMEOUT):
            while found != expected:
                await trio.sleep(0.01)
                listed = await state.list(kinds.KERNEL_PARAM_STATUS)
                found = {one.id: (one.spec.current, one.spec.default, one.spec.unsupported) for one in listed}
        assert found == expected

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, controllers)
        await settle({"proc.sys.kernel.panic": ("10", "0", False)})
        await configure(state, "{vm.swappiness: '1', vm.missing: '1'}")
        first = {"proc.sys.kernel.panic": ("10", "0", False), "sys.a.b": ("7", "1", False)}
        more = {"proc.sys.vm.swappiness": ("1", "60", False), "proc.sys.vm.missing": ("", "", True)}
        await settle(first | more)
        assert sum("vm.missing" in line for line in lines) == 1
        await configure(state, "{}")
        await settle(first)
        assert KernelSysctls(root).read("proc.sys.vm.swappiness") == "60"
        nursery.cancel_scope.cancel()


async def test_zswap_is_made_of_kernel_params() -> None:
    """With upstream's defaults; ``machine.sysfs`` replaces one of them."""
    state = MemoryState()
    await configure(state, "{}", "---\napiVersion: v1alpha1\nkind: ZswapConfig\nshrinkerEnabled: true\n")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [KernelParamConfigController()])
        found: set[tuple[str, str]] = set()
        with trio.move_on_after(SETTLE_TIMEOUT):
            while len(found) < 4:
                await trio.lowlevel.checkpoint()
                found = {(one.id, one.spec.value) for one in await state.list(kinds.KERNEL_PARAM_SPEC)}
        nursery.cancel_scope.cancel()
    zswap = "sys.module.zswap.parameters"
    assert found == {
        ("sys.a.b", "7"),
        (f"{zswap}.enabled", "Y"),
        (f"{zswap}.max_pool_percent", "20"),
        (f"{zswap}.shrinker_enabled", "Y"),
    }
