"""Kernel parameters: the machine's own, a user's, and back again; what a kernel has to be started with."""

from pathlib import Path

import pytest
import trio.testing

from talos.api.resource import config_pb2
from talos.machined.boot.phases.requirements import check_arguments
from talos.machined.controllers.runtime.kernel_params import (
    KernelParamConfigController,
    KernelParamSpecController,
)
from talos.machined.node.sysctls import KernelParams, default_params
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline
from talos.system.proc.sysctl import KernelSysctls

SYSCTL_CONF = Path(__file__).parents[4] / "kernel/sysctl.conf"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, value in {"proc/sys/kernel/panic": "0", "proc/sys/vm/swappiness": "60", "sys/a/b": "1"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return tmp_path


def test_params_are_set_and_taken_back(root: Path) -> None:
    defaults = {"proc.sys.kernel.panic": "10", "proc.sys.net.missing": "1"}
    params = KernelParams(KernelSysctls(root), defaults)
    results = params.apply({})
    assert [(one.key, one.current, one.default, one.unsupported) for one in results] == [
        ("proc.sys.kernel.panic", "10", "0", False),
        ("proc.sys.net.missing", "", "", True),
    ]
    params.apply({"proc.sys.kernel.panic": "5", "proc.sys.vm.swappiness": "1", "sys.a.b": "0"})
    read = KernelSysctls(root).read
    assert [read(key) for key in ("proc.sys.kernel.panic", "proc.sys.vm.swappiness", "sys.a.b")] == [
        "5",
        "1",
        "0",
    ]
    params.apply({})
    assert [read(key) for key in ("proc.sys.kernel.panic", "proc.sys.vm.swappiness", "sys.a.b")] == [
        "10",
        "60",
        "1",
    ]


def test_no_key_leads_elsewhere(root: Path) -> None:
    (root / "secret").write_text("secret\n")
    params = KernelParams(KernelSysctls(root), {})
    for key in ("proc.sys.//.//.secret", "sys.//.secret", "secret", "proc.sys..kernel"):
        (result,) = params.apply({key: "x"})
        assert result.unsupported, key
    assert (root / "secret").read_text() == "secret\n"


@pytest.mark.skipif(not SYSCTL_CONF.exists(), reason="the kernel's part of the tree is not here")
def test_the_defaults_hold_the_kernels_list() -> None:
    lines = [line.partition("#")[0].strip() for line in SYSCTL_CONF.read_text(encoding="utf-8").splitlines()]
    pairs = [line.partition("=") for line in lines if line]
    wanted = {f"proc.sys.{name.strip()}": value.strip() for name, _, value in pairs}
    assert wanted
    defaults = default_params(has_kernel=True)
    assert {key: defaults.get(key) for key in wanted} == wanted


def test_a_container_leaves_the_kernels_protection_to_its_host() -> None:
    assert "proc.sys.kernel.kptr_restrict" in default_params(has_kernel=True)
    assert "proc.sys.kernel.kptr_restrict" not in default_params(has_kernel=False)


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


def test_a_kernel_without_its_protection_is_refused() -> None:
    check_arguments(parse_cmdline("slab_nomerge= pti=on"))
    check_arguments(parse_cmdline("slab_nomerge pti=auto pti=on"))
    for text, named in (
        ("pti=on", "without slab_nomerge= "),
        ("slab_nomerge= pti=off", "without pti=on"),
        ("slab_nomerge= pti=on pti=off", "without pti=on"),
        ("", "slab_nomerge= and pti=on"),
    ):
        with pytest.raises(UserError, match=named):
            check_arguments(parse_cmdline(text))
