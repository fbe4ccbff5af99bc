"""Kernel parameters by name."""

from pathlib import Path

import pytest

from talos.system.proc.sysctl import KernelSysctls, path_of


def test_sysctl(tmp_path: Path) -> None:
    assert path_of("proc.sys.net.ipv4.conf.eth0/1.forwarding") == Path(
        "/proc/sys/net/ipv4/conf/eth0.1/forwarding"
    )
    file = tmp_path / "proc/sys/kernel/panic"
    file.parent.mkdir(parents=True)
    file.write_text("0\n")
    sysctls = KernelSysctls(tmp_path)
    sysctls.write("proc.sys.kernel.panic", "10")
    assert sysctls.read("proc.sys.kernel.panic") == "10"
    with pytest.raises(FileNotFoundError):
        sysctls.write("proc.sys.kernel.missing", "1")
