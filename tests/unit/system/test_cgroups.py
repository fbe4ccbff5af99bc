"""Control groups, of both versions."""

import os
from pathlib import Path

import pytest

from talos.system.cgroups import (
    MIB,
    Limits,
    PodGroup,
    find_groups,
    find_pod_group,
    make_weight,
    read_memory_limit,
)


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


def test_memory_above_its_bound(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    (tmp_path / "init").mkdir()
    (tmp_path / "init/memory.high").write_text("max")
    groups = find_groups(tmp_path)
    groups.create("init", Limits(high=MIB))
    assert (tmp_path / "init/memory.high").read_text() == str(MIB)
    assert groups.count_high("init") == 0
    (tmp_path / "init/memory.events").write_text("low 0\nhigh 17\nmax 0\n")
    (tmp_path / "init/memory.stat").write_text("anon 4096\nfile 8192\n")
    assert groups.count_high("init") == 17
    assert groups.read_usage("init").anonymous == 4096


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


@pytest.mark.parametrize(
    ("file", "text", "limit"),
    [
        ("memory.max", "2147483648\n", 2147483648),
        ("memory.max", "max\n", None),
        ("memory/memory.limit_in_bytes", "2147483648\n", 2147483648),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
        ("memory.stat", "", None),
    ],
)
def test_the_memory_limit_of_a_container(tmp_path: Path, file: str, text: str, limit: int | None) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / file).write_text(text)
    assert read_memory_limit(tmp_path) == limit


def test_weight() -> None:
    assert (make_weight(0), make_weight(1000), make_weight(1)) == (0, 39, 1)


@pytest.mark.parametrize("place", ["kubepods/burstable", "kubepods", "pids/kubepods/besteffort"])
def test_the_group_of_a_pod_that_ends(tmp_path: Path, place: str) -> None:
    group = tmp_path / place / "podu1"
    (group / "container").mkdir(parents=True)
    (group / "cgroup.procs").touch()
    assert find_pod_group("u1", tmp_path) is PodGroup.BUSY
    assert find_pod_group("u2", tmp_path) is PodGroup.GONE
    (group / "container").rmdir()
    assert find_pod_group("u1", tmp_path) is PodGroup.EMPTY
    (group / "cgroup.procs").unlink()
    group.rmdir()
    assert find_pod_group("u1", tmp_path) is PodGroup.GONE
