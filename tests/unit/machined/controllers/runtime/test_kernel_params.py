"""Kernel parameters from the config to the kernel and into the State."""

from pathlib import Path

import pytest
import trio.testing

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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, value in {"proc/sys/kernel/panic": "0", "proc/sys/vm/swappiness": "60", "sys/a/b": "1"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return tmp_path


async def configure(state: MemoryState, sysctls: str) -> None:
    text = f"version: v1alpha1\nmachine:\n  type: worker\n  sysctls: {sysctls}\n  sysfs: {{a.b: '7'}}\n"

    def change(spec: config_pb2.MachineConfigSpec) -> None:
        spec.yaml_marshalled = text.encode()

    await modify(state, *ids.MACHINE_CONFIG, change)


async def test_a_config_sets_params(root: Path) -> None:
    state, lines = MemoryState(), list[str]()
    params = KernelParams(KernelSysctls(root), {"proc.sys.kernel.panic": "10"})
    controllers = [
        KernelParamConfigController(),
        KernelParamSpecController(params, Log(write=lines.append)),
    ]

    async def statuses() -> dict[str, tuple[str, str, bool]]:
        for _ in range(20):  # the kernel is asked in a thread
            await trio.testing.wait_all_tasks_blocked(0.01)
        listed = await state.list(kinds.KERNEL_PARAM_STATUS)
        return {one.id: (one.spec.current, one.spec.default, one.spec.unsupported) for one in listed}

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, controllers)
        assert await statuses() == {"proc.sys.kernel.panic": ("10", "0", False)}
        await configure(state, "{vm.swappiness: '1', vm.missing: '1'}")
        assert await statuses() == {
            "proc.sys.kernel.panic": ("10", "0", False),
            "proc.sys.vm.swappiness": ("1", "60", False),
            "proc.sys.vm.missing": ("", "", True),
            "sys.a.b": ("7", "1", False),
        }
        assert sum("vm.missing" in line for line in lines) == 1
        await configure(state, "{}")
        assert set(await statuses()) == {"proc.sys.kernel.panic", "sys.a.b"}
        assert KernelSysctls(root).read("proc.sys.vm.swappiness") == "60"
        nursery.cancel_scope.cancel()
