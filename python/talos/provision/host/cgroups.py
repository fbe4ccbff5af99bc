"""The nodes' control groups, in whatever hierarchies this machine has.

Version 2 is one tree; version 1 is one tree per controller, and both may be there at once.
Every node has the group ``talos/<cluster>/<node>`` in every hierarchy, and the launcher
``talos/<cluster>/launcher``, so that neither ends with the session that created the cluster.
"""

import errno
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, override

from talos.provision.host.processes import identify

TOP = "talos"
LAUNCHER = "launcher"
# In cgroup.procs: the process that writes, whatever its pid is in which namespace.
WRITER = 0
# A killed process leaves its group a moment after its end; this is how long we try.
_REMOVE_TIMEOUT = 5.0  # seconds
# How often to begin anew when another cluster, which was the last until now, takes the group of all away.
_ATTEMPTS = 50
# Version 2: what is handed down to nodes when the kernel has it.
_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids", "misc", "rdma")
# Microseconds; the kernel's own default for both versions.
_CPU_PERIOD = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """One mounted tree of control groups."""

    path: Path
    controllers: frozenset[str]
    unified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """What a node may use; 0 is no limit."""

    cpus: float = 0.0
    memory: int = 0


class Files(Protocol):
    """The few file operations groups are made of."""

    def exists(self, path: Path) -> bool:
        """Whether it is there."""
        ...

    def mkdir(self, path: Path) -> None:
        """Make a directory."""
        ...

    def read(self, path: Path) -> str:
        """A file's text."""
        ...

    def write(self, path: Path, text: str) -> None:
        """Write to a file that is there."""
        ...


class KernelFiles(Files):
    """The real ones."""

    @override
    def exists(self, path: Path) -> bool:
        return path.exists()

    @override
    def mkdir(self, path: Path) -> None:
        path.mkdir(exist_ok=True)  # another cluster's launcher may have made it meanwhile

    @override
    def read(self, path: Path) -> str:
        return path.read_text(encoding="ascii")

    @override
    def write(self, path: Path, text: str) -> None:
        with path.open("r+", encoding="ascii") as file:
            file.write(text)


def parse_hierarchies(mountinfo: str) -> list[Hierarchy]:
    """The hierarchies that are mounted, from the text of /proc/self/mountinfo."""
    found: dict[frozenset[str], Hierarchy] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        filesystem, _, options = right.split(" ", 2)
        if filesystem not in ("cgroup", "cgroup2"):
            continue
        path = Path(left.split(" ")[4])
        known = {"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "net_cls"}
        known |= {"net_prio", "perf_event", "hugetlb", "rdma", "misc"}
        controllers = frozenset(
            option for option in options.split(",") if option in known or option.startswith("name=")
        )
        hierarchy = Hierarchy(path=path, controllers=controllers, unified=filesystem == "cgroup2")
        # The first mount of a hierarchy is as good as any later one.
        found.setdefault(controllers, hierarchy)
    return list(found.values())


def mounted_hierarchies() -> list[Hierarchy]:
    """The hierarchies of this machine."""
    return parse_hierarchies(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))


def make_group(
    hierarchies: Iterable[Hierarchy], parts: Sequence[str], limits: NodeLimits, files: Files | None = None
) -> None:
    """Make a group (and those above it) in every hierarchy, and limit it."""
    kernel = files or KernelFiles()
    for hierarchy in hierarchies:
        for attempt in range(_ATTEMPTS):
            try:
                path = _make_path(kernel, hierarchy, parts)
            except FileNotFoundError:
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                _limit(kernel, hierarchy, path, limits)
                break


def _make_path(kernel: Files, hierarchy: Hierarchy, parts: Sequence[str]) -> Path:
    """The group in one hierarchy; FileNotFoundError when one above it is removed meanwhile."""
    path = hierarchy.path
    for part in parts:
        parent, path = path, path / part
        if hierarchy.unified:
            _hand_down(kernel, parent)
        if not kernel.exists(path):
            kernel.mkdir(path)
        if "cpuset" in hierarchy.controllers:
            _inherit_cpuset(kernel, parent, path)
    return path


def _hand_down(kernel: Files, parent: Path) -> None:
    available = kernel.read(parent / "cgroup.controllers").split()
    enabled = kernel.read(parent / "cgroup.subtree_control").split()
    for controller in _CONTROLLERS:
        if controller in available and controller not in enabled:
            kernel.write(parent / "cgroup.subtree_control", f"+{controller}")


def _inherit_cpuset(kernel: Files, parent: Path, path: Path) -> None:
    # Version 1 groups begin with an empty set, into which no process can be put.
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not kernel.read(path / name).strip():
            kernel.write(path / name, kernel.read(parent / name).strip())
    kernel.write(path / "cgroup.clone_children", "1")


def _limit(kernel: Files, hierarchy: Hierarchy, path: Path, limits: NodeLimits) -> None:
    quota = int(limits.cpus * _CPU_PERIOD)
    if hierarchy.unified:
        if quota and kernel.exists(path / "cpu.max"):
            kernel.write(path / "cpu.max", f"{quota} {_CPU_PERIOD}")
        if limits.memory and kernel.exists(path / "memory.max"):
            kernel.write(path / "memory.max", str(limits.memory))
        return
    if quota and "cpu" in hierarchy.controllers:
        kernel.write(path / "cpu.cfs_quota_us", str(quota))
    if limits.memory and "memory" in hierarchy.controllers:
        kernel.write(path / "memory.limit_in_bytes", str(limits.memory))


def join(hierarchies: Iterable[Hierarchy], parts: Sequence[str], pid: int) -> None:
    """Move a process into a group."""
    for hierarchy in hierarchies:
        (hierarchy.path.joinpath(*parts) / "cgroup.procs").write_text(str(pid), encoding="ascii")


def members(hierarchies: Iterable[Hierarchy], parts: Sequence[str]) -> set[int]:
    """Every process in a group or below it."""
    found: set[int] = set()
    for group in _groups(hierarchies, parts):
        with suppress(OSError):
            found.update(int(pid) for pid in (group / "cgroup.procs").read_text(encoding="ascii").split())
    return found


def kill(hierarchies: Sequence[Hierarchy], parts: Sequence[str], *, keep: int = 0) -> set[int]:
    """Kill every process in a group or below it, except one; those that were there."""
    found = members(hierarchies, parts) - {keep}
    for pid in found:
        process = identify(pid)
        if process is not None:
            process.send(signal.SIGKILL)
    return found


def remove(hierarchies: Iterable[Hierarchy], parts: Sequence[str]) -> list[Path]:
    """Remove a group and those below it; the ones that could not be removed in time."""
    end = time.monotonic() + _REMOVE_TIMEOUT
    return [group for group in _groups(hierarchies, parts) if not _remove_one(group, end)]


def remove_if_empty(hierarchies: Iterable[Hierarchy], parts: Sequence[str]) -> None:
    """Remove a group unless something is in or below it."""
    for hierarchy in hierarchies:
        with suppress(OSError):
            hierarchy.path.joinpath(*parts).rmdir()


def _remove_one(group: Path, end: float) -> bool:
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                return False
            time.sleep(0.01)
        else:
            return True


def _groups(hierarchies: Iterable[Hierarchy], parts: Sequence[str]) -> Iterator[Path]:
    """The group's directories, innermost first."""
    for hierarchy in hierarchies:
        top = hierarchy.path.joinpath(*parts)
        for directory, _, _ in top.walk(top_down=False):
            yield directory
