"""The ports to the kernel: what they parse, and their twins."""

import os
from pathlib import Path

import pytest

from talos.system.cgroups import MIB, Limits, find_groups, make_weight
from talos.system.errors import UserError
from talos.system.kmsg import format_message, parse_record
from talos.system.mounts import MountPoint
from talos.system.proc.cmdline import parse_cmdline
from talos.system.proc.sysctl import KernelSysctls, path_of
from talos.system.process import describe_exit, format_command, run_command
from talos.testing.files import MemoryFiles
from talos.testing.mounts import MemoryMounts


def test_cmdline() -> None:
    cmdline = parse_cmdline('talos.platform=metal console=tty0 console=ttyS0 quiet a="b c" x="open\n')
    assert cmdline.first("talos.platform") == "metal"
    assert cmdline.all("console") == ("tty0", "ttyS0")
    assert cmdline.has("quiet")
    assert cmdline.is_on("quiet")
    assert not cmdline.is_on("console")
    assert cmdline.first("missing", "none") == "none"
    assert parse_cmdline('a="b c" d').all("a") == ("b c",)


def test_kmsg_record() -> None:
    message = parse_record(b"30,1234,5000001,-,caller=T1;[talos] caf\\xc3\\xa9\n SUBSYSTEM=x\n")
    assert message is not None
    assert (message.facility, message.priority, message.sequence) == ("daemon", "info", 1234)
    assert message.text == "[talos] café"
    assert format_message(message, 0) == "daemon:    info: [1970-01-01T00:00:05.000001Z]: [talos] café"
    assert parse_record(b"garbage") is None
    assert parse_record(b"") is None


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


def test_unified_groups(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    (tmp_path / "system").mkdir()
    (tmp_path / "system/memory.min").write_text("0")
    groups = find_groups(tmp_path)
    groups.create("system", Limits(minimum=96 * MIB, millicores=1500))
    groups.join("system", 7)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (tmp_path / "system/memory.min").read_text() == str(96 * MIB)
    assert (tmp_path / "system/cgroup.procs").read_text() == "7"
    (tmp_path / "system/memory.swap.max").write_text("max")
    groups.create("system", Limits(minimum=MIB))
    assert (tmp_path / "system/memory.swap.max").read_text() == "0"
    kernel_thread = 4194305  # not there, as its program isn't: larger than any pid
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n0\n{kernel_thread}\n")
    groups.leave_root("init")
    assert (tmp_path / "init/cgroup.procs").read_text() == str(os.getpid())


def test_split_groups(tmp_path: Path) -> None:
    for name in ("memory", "cpuset"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text("")
    for file in ("cpuset.cpus", "cpuset.mems"):
        (tmp_path / "cpuset" / file).write_text("0-1")
    groups = find_groups(tmp_path)
    groups.create("system/apid", Limits())
    groups.join("system/apid", 9)
    assert (tmp_path / "memory/system/apid/cgroup.procs").read_text() == "9"
    assert (tmp_path / "cpuset/system/apid/cpuset.cpus").read_text() == "0-1"


def test_no_groups(tmp_path: Path) -> None:
    groups = find_groups(tmp_path)
    groups.create("a", Limits())
    groups.join("a", 1)
    groups.leave_root("a")


def test_weight() -> None:
    assert (make_weight(0), make_weight(1000), make_weight(1)) == (0, 39, 1)


def test_memory_mounts() -> None:
    mounts = MemoryMounts(busy={"/var"})
    mounts.mount(MountPoint(source="tmpfs", target="/run", type="tmpfs"))
    mounts.mount(MountPoint(source="/dev/sda6", target="/var", type="xfs"))
    assert mounts.list()[0].options == ("nosuid", "nodev", "noexec")
    with pytest.raises(OSError, match="busy"):
        mounts.unmount("/var")
    mounts.unmount("/var", lazy=True)
    assert [mount.target for mount in mounts.list()] == ["/run"]


def test_memory_files() -> None:
    files = MemoryFiles({"/proc/1/stat": "x", "/proc/meminfo": b"y\xff"}, {"/proc/self": "/proc/1"})
    assert files.list("/proc") == ["1", "meminfo", "self"]
    assert files.read("/proc/meminfo") == "y\ufffd"
    assert files.exists("/proc/1")
    assert not files.exists("/proc/2")
    with pytest.raises(FileNotFoundError):
        files.read("/proc/2/stat")


def test_run_command() -> None:
    lines: list[str] = []
    result = run_command(["/bin/echo", "two words"], log=lines.append, cwd=Path("/"))
    assert result.stdout == "two words\n"
    assert lines == ["cd / && /bin/echo 'two words'"]
    with pytest.raises(UserError, match="exit code 3: oops"):
        run_command(["/bin/sh", "-c", "echo oops >&2; exit 3"])
    with pytest.raises(UserError, match="no-such-program is not installed"):
        run_command(["no-such-program"])
    with pytest.raises(UserError, match="no end after"):
        run_command(["/bin/sleep", "5"], timeout=0.05)
    assert format_command(["a", "b c"]) == "a 'b c'"
    assert [describe_exit(code) for code in (1, -9, -99)] == ["exit code 1", "signal SIGKILL", "signal 99"]
