"""Control groups of a container, of both versions."""

from pathlib import Path
from typing import override

from talos.provision.host.cgroups import Hierarchy, KernelFiles, NodeLimits, make_group, parse_hierarchies

V1 = """\
30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
31 25 0:27 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
32 25 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
33 25 0:28 / /elsewhere rw,relatime - cgroup2 cgroup2 rw
22 1 254:0 / / rw - ext4 /dev/vda rw
"""


class MemoryFiles:
    def __init__(self, contents: dict[Path, str]) -> None:
        self.contents = contents
        self.directories: list[Path] = []

    def exists(self, path: Path) -> bool:
        return path in self.contents or path in self.directories

    def mkdir(self, path: Path) -> None:
        self.directories.append(path)
        for name in ("cgroup.controllers", "cgroup.subtree_control", "cpu.max", "memory.max", "cpuset.cpus"):
            self.contents[path / name] = "cpu memory" if name == "cgroup.controllers" else ""
        self.contents[path / "cpuset.mems"] = ""

    def read(self, path: Path) -> str:
        return self.contents[path]

    def write(self, path: Path, text: str) -> None:
        self.contents[path] = f"{self.contents.get(path, '')} {text}".strip()


def test_hierarchies_of_both_versions_are_found_once() -> None:
    assert parse_hierarchies(V1) == [
        Hierarchy(
            path=Path("/sys/fs/cgroup/cpu,cpuacct"), controllers=frozenset({"cpu", "cpuacct"}), unified=False
        ),
        Hierarchy(
            path=Path("/sys/fs/cgroup/systemd"), controllers=frozenset({"name=systemd"}), unified=False
        ),
        Hierarchy(path=Path("/sys/fs/cgroup/unified"), controllers=frozenset(), unified=True),
    ]


def test_version_2_groups_get_controllers_and_limits() -> None:
    top = Path("/cg")
    files = MemoryFiles(
        {top / "cgroup.controllers": "cpu memory pids", top / "cgroup.subtree_control": "cpu"}
    )
    hierarchy = Hierarchy(path=top, controllers=frozenset(), unified=True)
    make_group([hierarchy], ("talos", "c", "n"), NodeLimits(cpus=1.5, memory=1 << 30), files)
    assert files.contents[top / "cgroup.subtree_control"] == "cpu +memory +pids"
    assert files.contents[top / "talos/c/cgroup.subtree_control"] == "+cpu +memory"
    assert files.contents[top / "talos/c/n/cpu.max"] == "150000 100000"
    assert files.contents[top / "talos/c/n/memory.max"] == str(1 << 30)
    assert files.contents[top / "talos/c/n/cgroup.subtree_control"] == ""


def test_version_1_groups_inherit_their_cpuset() -> None:
    top = Path("/cg/cpuset")
    files = MemoryFiles({top / "cpuset.cpus": "0-1\n", top / "cpuset.mems": "0\n"})
    make_group(
        [Hierarchy(path=top, controllers=frozenset({"cpuset"}), unified=False)],
        ("t", "n"),
        NodeLimits(),
        files,
    )
    assert files.contents[top / "t/n/cpuset.cpus"] == "0-1"
    assert files.contents[top / "t/n/cgroup.clone_children"] == "1"


class Rival(KernelFiles):
    """Another cluster ends meanwhile, and takes the group of all along; and one begins."""

    def __init__(self) -> None:
        self.removals = 2

    @override
    def mkdir(self, path: Path) -> None:
        if path.name == "cluster" and self.removals:
            self.removals -= 1
            path.parent.rmdir()
        if path.name == "node":
            path.mkdir()
        super().mkdir(path)


def test_clusters_that_begin_and_end_at_the_same_time_do_not_disturb(tmp_path: Path) -> None:
    hierarchy = Hierarchy(path=tmp_path, controllers=frozenset(), unified=False)
    make_group([hierarchy], ("talos", "cluster", "node"), NodeLimits(), Rival())
    assert (tmp_path / "talos/cluster/node").is_dir()
