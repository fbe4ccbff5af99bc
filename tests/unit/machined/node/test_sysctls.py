"""Kernel parameters: PID 1's defaults, a config's values, and the way back."""

from pathlib import Path

import pytest

from talos.machined.node.sysctls import KernelParams, default_params
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
