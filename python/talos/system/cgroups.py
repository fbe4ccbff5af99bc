"""Control groups: one tree of version 2, or a hierarchy per controller of version 1."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, override

ROOT = Path("/sys/fs/cgroup")
_V1_CONTROLLERS = ("memory", "cpu", "cpuacct", "pids", "cpuset")
"""Hierarchies in which our groups exist; the others matter to container runtimes only."""
_V2_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a group is granted. Memory in bytes, 0 for unset.

    ``minimum`` is never reclaimed, ``low`` is spared while others can give, above ``high`` processes are
    slowed down (version 2), ``maximum`` is the end. ``millicores`` set its share when processors are short.
    Only with ``swap`` may its memory be swapped out.
    """

    minimum: int = 0
    low: int = 0
    high: int = 0
    maximum: int = 0
    millicores: int = 0
    swap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the processes of a group use: memory in bytes, processor time in ns.

    ``anonymous`` is the memory that is no file's, which only its owner can give back; counted on version 2.
    """

    memory: int = 0
    anonymous: int = 0
    cpu: int = 0


class Groups(Protocol):
    """The node's groups, by path from the root of its cgroup namespace (``system/apid``)."""

    def create(self, path: str, limits: Limits) -> None:
        """Make a group with its parents, or change its limits."""
        ...

    def join(self, path: str, pid: int) -> None:
        """Move a process into a group."""
        ...

    def leave_root(self, path: str) -> None:
        """Move every process of the root, but the kernel's threads, into a group."""
        ...

    def read_usage(self, path: str) -> Usage:
        """What a group uses; zeros for what the kernel doesn't count or a group that isn't there."""
        ...

    def count_high(self, path: str) -> int:
        """How often a group has used more than its ``high``; 0 where the kernel has no such bound."""
        ...


def find_groups(root: Path = ROOT) -> "Groups":
    """The version that is mounted; a twin that does nothing when none is."""
    if (root / "cgroup.controllers").exists():
        return UnifiedGroups(root)
    hierarchies = [root / name for name in _V1_CONTROLLERS if (root / name / "cgroup.procs").exists()]
    return SplitGroups(hierarchies) if hierarchies else NoGroups()


def read_memory_limit(root: Path = ROOT) -> int | None:
    """Bytes of memory that a container may have, by its root group; None for a machine."""
    for file in (root / "memory.max", root / "memory/memory.limit_in_bytes"):
        try:
            text = file.read_text(encoding="ascii").strip()
        except OSError:
            continue
        # Version 1 writes none as the largest multiple of a page.
        return int(text) if text.isdigit() and int(text) < 1 << 62 else None
    return None


class PodGroup(enum.Enum):
    """How far the end of a pod is, by its group."""

    BUSY = enum.auto()
    """There are containers."""
    EMPTY = enum.auto()
    GONE = enum.auto()


def find_pod_group(uid: str, root: Path = ROOT) -> PodGroup:
    """The group that the kubelet has for a pod, and removes once the pod has ended."""
    hierarchies = (root, *root.glob("*"))
    classes = ("", "burstable", "besteffort")
    paths = [hierarchy / "kubepods" / name / f"pod{uid}" for hierarchy in hierarchies for name in classes]
    groups = [path for path in paths if path.exists()]
    if any(any(group.glob("*/")) for group in groups):
        return PodGroup.BUSY
    return PodGroup.EMPTY if groups else PodGroup.GONE


class UnifiedGroups(Groups):
    """Version 2."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @override
    def create(self, path: str, limits: Limits) -> None:
        group = self._root
        for name in path.split("/"):
            self._delegate(group)
            group = group / name
            group.mkdir(exist_ok=True)
        for file, value in (
            ("memory.min", limits.minimum),
            ("memory.low", limits.low),
            ("memory.high", limits.high),
            ("memory.max", limits.maximum),
            ("cpu.weight", make_weight(limits.millicores)),
        ):
            if value and (group / file).exists():
                (group / file).write_text(str(value), encoding="ascii")
        swap = group / "memory.swap.max"
        if limits != Limits() and swap.exists():
            swap.write_text("max" if limits.swap else "0", encoding="ascii")

    def _delegate(self, group: Path) -> None:
        available = (group / "cgroup.controllers").read_text(encoding="ascii").split()
        enabled = (group / "cgroup.subtree_control").read_text(encoding="ascii").split()
        wanted = [f"+{name}" for name in _V2_CONTROLLERS if name in available and name not in enabled]
        if wanted:
            (group / "cgroup.subtree_control").write_text(" ".join(wanted), encoding="ascii")

    @override
    def join(self, path: str, pid: int) -> None:
        (self._root / path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    @override
    def leave_root(self, path: str) -> None:
        """Move every process of the root, but the kernel's threads, into a group.

        Below a namespace's root, a group gets nothing to give while it has processes itself.
        """
        (self._root / path).mkdir(parents=True, exist_ok=True)
        for pid in _read_pids(self._root):
            self.join(path, pid)

    @override
    def read_usage(self, path: str) -> Usage:
        """What a group uses."""
        times = _read_counters(self._root / path / "cpu.stat")
        return Usage(
            memory=int(_read(self._root / path / "memory.current") or 0),
            anonymous=_read_counters(self._root / path / "memory.stat").get("anon", 0),
            cpu=times.get("usage_usec", 0) * 1000,
        )

    @override
    def count_high(self, path: str) -> int:
        return _read_counters(self._root / path / "memory.events").get("high", 0)


class SplitGroups(Groups):
    """Version 1."""

    def __init__(self, hierarchies: Sequence[Path]) -> None:
        self._hierarchies = tuple(hierarchies)

    @override
    def create(self, path: str, limits: Limits) -> None:
        for hierarchy in self._hierarchies:
            group = hierarchy
            for name in path.split("/"):
                parent, group = group, group / name
                group.mkdir(exist_ok=True)
                if hierarchy.name == "cpuset":  # a new one is empty: nothing could join it
                    for file in ("cpuset.cpus", "cpuset.mems"):
                        (group / file).write_bytes((parent / file).read_bytes())
            for file, value in (
                ("memory.soft_limit_in_bytes", limits.low or limits.minimum),
                ("memory.limit_in_bytes", limits.maximum),
                ("cpu.shares", limits.millicores * 1024 // 1000),
            ):
                if value and (group / file).exists():
                    (group / file).write_text(str(value), encoding="ascii")

    @override
    def join(self, path: str, pid: int) -> None:
        for hierarchy in self._hierarchies:
            (hierarchy / path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    @override
    def leave_root(self, path: str) -> None:
        self.create(path, Limits())
        for hierarchy in self._hierarchies:
            for pid in _read_pids(hierarchy):
                (hierarchy / path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    @override
    def read_usage(self, path: str) -> Usage:
        """What a group uses."""
        found = {hierarchy.name: hierarchy / path for hierarchy in self._hierarchies}
        memory, cpu = found.get("memory"), found.get("cpuacct")
        return Usage(
            memory=int(_read(memory / "memory.usage_in_bytes") or 0) if memory else 0,
            cpu=int(_read(cpu / "cpuacct.usage") or 0) if cpu else 0,
        )

    @override
    def count_high(self, path: str) -> int:
        return 0


class NoGroups:
    """Where no cgroup filesystem is mounted."""

    def create(self, path: str, limits: Limits) -> None:
        """Nothing to make."""

    def join(self, path: str, pid: int) -> None:
        """Nothing to join."""

    def leave_root(self, path: str) -> None:
        """There is no root."""

    def read_usage(self, path: str) -> Usage:
        """Nothing is counted."""
        del path
        return Usage()

    def count_high(self, path: str) -> int:
        """Nothing is bounded."""
        del path
        return 0


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except OSError:
        return ""


def _read_counters(file: Path) -> dict[str, int]:
    """Lines of a name and a number; empty without the file."""
    pairs = (line.split() for line in _read(file).splitlines())
    return {name: int(number) for name, number in pairs}


def _read_pids(group: Path) -> Sequence[int]:
    """Processes that can be moved: the kernel's threads, which only the real root has, refuse (EINVAL)."""
    text = (group / "cgroup.procs").read_text(encoding="ascii")
    # Processes outside of our pid namespace show as 0.
    return [int(line) for line in text.split() if line != "0" and _has_program(int(line))]


def _has_program(pid: int) -> bool:
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except FileNotFoundError:  # which lists the kernel's threads
        return False
    except OSError:
        return True
    return True


def make_weight(millicores: int) -> int:
    """The cpu.weight that stands for this many millicores, as runc converts shares; 0 for unset."""
    if millicores == 0:
        return 0
    shares = max(2, min(millicores * 1024 // 1000, 262144))
    return 1 + ((shares - 2) * 9999) // 262142
