"""The parts of the container platform that need no privileges."""

import os
import signal
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from talos.provision.container.cgroups import Hierarchy, Limits, make_group, parse_hierarchies
from talos.provision.container.checks import check_image, check_subnet
from talos.provision.container.launcher import Outcome, parse_status
from talos.provision.container.leftovers import mounts_below
from talos.provision.container.processes import ProcessId, identify
from talos.system.errors import UserError

V1 = """\
30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
31 25 0:27 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
32 25 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
33 25 0:28 / /elsewhere rw,relatime - cgroup2 cgroup2 rw
22 1 254:0 / / rw - ext4 /dev/vda rw
"""
ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
talos-1\t0000050A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
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
    make_group([hierarchy], ("talos", "c", "n"), Limits(cpus=1.5, memory=1 << 30), files)
    assert files.contents[top / "cgroup.subtree_control"] == "cpu +memory +pids"
    assert files.contents[top / "talos/c/cgroup.subtree_control"] == "+cpu +memory"
    assert files.contents[top / "talos/c/n/cpu.max"] == "150000 100000"
    assert files.contents[top / "talos/c/n/memory.max"] == str(1 << 30)
    assert files.contents[top / "talos/c/n/cgroup.subtree_control"] == ""


def test_version_1_groups_inherit_their_cpuset() -> None:
    top = Path("/cg/cpuset")
    files = MemoryFiles({top / "cpuset.cpus": "0-1\n", top / "cpuset.mems": "0\n"})
    make_group(
        [Hierarchy(path=top, controllers=frozenset({"cpuset"}), unified=False)], ("t", "n"), Limits(), files
    )
    assert files.contents[top / "t/n/cpuset.cpus"] == "0-1"
    assert files.contents[top / "t/n/cgroup.clone_children"] == "1"


def test_a_subnet_in_use_is_refused_with_a_free_one() -> None:
    check_subnet(IPv4Network("10.6.0.0/24"), ROUTES)
    with pytest.raises(UserError, match=r"overlaps 192\.0\.2\.0/24, which this machine reaches through eth0"):
        check_subnet(IPv4Network("192.0.0.0/16"), ROUTES)
    with pytest.raises(UserError, match=r"another local cluster .*such as 10\.6\.0\.0/24"):
        check_subnet(IPv4Network("10.5.0.0/24"), ROUTES)


def test_an_image_is_looked_at(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with pytest.raises(UserError, match="No such file"):
        check_image(image)
    image.write_bytes(b"\x7fELF")
    with pytest.raises(UserError, match="no squashfs image"):
        check_image(image)
    image.write_bytes(b"hsqs....")
    check_image(image)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (1, Outcome.RESTART),
        (2, Outcome.POWER_OFF),
        (9, Outcome.CRASH),
        (0, Outcome.CRASH),
        (256, Outcome.CRASH),
    ],
)
def test_the_end_of_pid_1_is_understood(status: int, outcome: Outcome) -> None:
    assert parse_status(status) is outcome


def test_a_pid_of_another_process_is_not_touched() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert own.is_alive()
    stranger = ProcessId(own.pid, own.started - 1)
    assert not stranger.is_alive()
    assert not stranger.send(signal.SIGKILL)
    assert stranger.wait(0)


def test_mounts_of_a_folder_are_found_by_their_unescaped_names() -> None:
    text = "1 0 0:1 / /a\\040b/root rw - tmpfs t rw\n2 0 0:2 / /a rw - tmpfs t rw\n"
    assert mounts_below(Path("/a b"), text) == ["/a b/root"]
