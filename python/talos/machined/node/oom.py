"""The node's memory by classes of control groups: what an OOMConfig judges, and which group ends."""

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from talos.config.cel.syntax import UInt
from talos.system.pressure import parse_pressure

ROOT = Path("/sys/fs/cgroup")
DEBUG = "debug"
"""The group of debug containers, which are worth as little as pods of the class Besteffort. It is not within
``system``: what they wait for is no reason to end a pod, and nothing that the system is granted is theirs.
"""
SPANS = tuple(
    f"{share}_{span}" for share in ("some", "full") for span in ("avg10", "avg60", "avg300", "total")
)
AMOUNTS = ("current", "max", "peak")
MIN_TRIGGER_INTERVAL = timedelta(seconds=5)
MIN_FREE = 1 / 16
"""The share of the node's memory that is free only when it is not short of memory.

While it is, the kernel keeps less than a fiftieth free. Pressure remains for half a minute after a group has
ended, and is there in a daemon's own group when that has reached its maximum: the end of a pod helps neither.
"""
_WEIGHTS = (1.0, 0.5, 0.0, 0.0, 0.0)


class MemoryClass(enum.IntEnum):
    """Classes of control groups in the order of their importance."""

    BESTEFFORT = 0
    BURSTABLE = 1
    GUARANTEED = 2
    PODRUNTIME = 3
    SYSTEM = 4


type Variables = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement. ``moment`` is in seconds; ``node`` is by span, ``classes`` by value, then by class."""

    moment: float
    node: Mapping[str, float]
    classes: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A control group that may end; sizes in bytes, None where the kernel has none."""

    path: Path
    kind: MemoryClass
    maximum: int | None
    current: int | None
    peak: int | None


def find_groups(kind: MemoryClass, root: Path = ROOT) -> list[Path]:
    """The groups that a class is measured by."""
    pods = root / "kubepods"
    match kind:
        case MemoryClass.BESTEFFORT:
            return [pods / "besteffort", root / DEBUG]
        case MemoryClass.BURSTABLE:
            return [pods / "burstable"]
        case MemoryClass.GUARANTEED:
            return [path for path in _children(pods) if path.name not in {"besteffort", "burstable"}]
        case MemoryClass.PODRUNTIME:
            return [root / "podruntime"]
        case MemoryClass.SYSTEM:
            return [root / "init", root / "system"]


def take_sample(moment: float, node: Mapping[str, float], root: Path = ROOT) -> Sample:
    """Measure all classes. A group that is not there counts nothing."""
    classes: dict[str, dict[int, float]] = {f"memory_{name}": {} for name in (*SPANS, *AMOUNTS)}
    for kind in MemoryClass:
        pressures: list[Mapping[str, float]] = []
        amounts: list[Mapping[str, int | None]] = []
        for group in find_groups(kind, root):
            pressures.append(parse_pressure(_read(group / "memory.pressure")))
            amounts.append({name: _read_bytes(group / f"memory.{name}") for name in AMOUNTS})
        for span in SPANS:
            classes[f"memory_{span}"][kind] = sum(found.get(span, 0.0) for found in pressures)
        for name in AMOUNTS:
            classes[f"memory_{name}"][kind] = float(sum(found[name] or 0 for found in amounts))
    return Sample(moment=moment, node={span: node.get(span, 0.0) for span in SPANS}, classes=classes)


def make_variables(sample: Sample, before: Sample | None, since_trigger: timedelta) -> Variables:
    """What a trigger's expression sees. With ``d_`` it is the change per second, 0 at the first sample."""
    seconds = sample.moment - before.moment if before else 0.0

    def change(now: float, then: float) -> float:
        return (now - then) / seconds if seconds > 0 else 0.0

    found: dict[str, Any] = {"time_since_trigger": since_trigger}
    for span, value in sample.node.items():
        found[f"memory_{span}"] = value
        found[f"d_memory_{span}"] = change(value, before.node[span]) if before else 0.0
    for name, values in sample.classes.items():
        found[f"qos_{name}"] = values
        found[f"d_qos_{name}"] = {
            kind: change(value, before.classes[name].get(kind, 0.0)) if before else 0.0
            for kind, value in values.items()
        }
    return found


def is_triggered(variables: Variables) -> bool:
    """Upstream's default trigger, without the reader of expressions, which most nodes never load."""
    stalls, shares = variables["d_qos_memory_full_total"], variables["qos_memory_full_avg10"]
    system, runtime = MemoryClass.SYSTEM, MemoryClass.PODRUNTIME
    return (
        8 * stalls.get(system, 0.0) + 4 * stalls.get(runtime, 0.0) > 3000
        and shares.get(system, 0.0) + shares.get(runtime, 0.0) > 5
        and variables["time_since_trigger"] > MIN_TRIGGER_INTERVAL
    )


def is_short(meminfo: Mapping[str, int]) -> bool:
    """Whether the node itself is short of memory."""
    return meminfo["MemFree"] < MIN_FREE * meminfo["MemTotal"]


def find_candidates(root: Path = ROOT) -> Iterator[Candidate]:
    """The groups of pods, of debug containers and of services.

    A group without processes is left out: it may count the files that its pod has read, and nothing ends.
    """
    for kind in MemoryClass:
        groups = find_groups(kind, root)
        is_pod = kind is MemoryClass.GUARANTEED  # these pods have no common group
        members = groups if is_pod else [path for group in groups for path in _children(group)]
        for path in filter(has_processes, members):
            maximum, current, peak = (
                _read_bytes(path / f"memory.{name}") for name in ("max", "current", "peak")
            )
            yield Candidate(path=path, kind=kind, maximum=maximum, current=current, peak=peak)


def describe(candidate: Candidate) -> Variables:
    """What a ranking's expression sees."""

    def wrap(number: int | None) -> UInt | None:
        return None if number is None else UInt(number)

    return {
        "memory_max": wrap(candidate.maximum),
        "memory_current": wrap(candidate.current),
        "memory_peak": wrap(candidate.peak),
        "path": str(candidate.path),
        "class": int(candidate.kind),
    }


def rank(candidate: Candidate) -> float:
    """Upstream's default ranking, likewise."""
    return 0.0 if candidate.maximum is not None else _WEIGHTS[candidate.kind] * (candidate.current or 0)


def choose(
    candidates: Iterator[Candidate], score: Callable[[Candidate], float], *, strict: bool
) -> tuple[Candidate, float] | None:
    """Which group ends, and its score: of the least important class that has one, or of all."""
    scored = [(one, points) for one in candidates if (points := score(one)) > 0]
    if not scored:
        return None
    if strict:
        lowest = min(one.kind for one, _ in scored)
        scored = [(one, points) for one, points in scored if one.kind == lowest]
    return max(scored, key=lambda item: item[1])


def to_json(variables: Variables) -> dict[str, Any]:
    """Variables as an OOMAction shows them: classes as texts, durations in nanoseconds."""
    return {name: _to_plain(value) for name, value in variables.items()}


def _to_plain(value: object) -> object:
    match value:
        case timedelta():
            return round(value.total_seconds() * 1e9)
        case Mapping():
            found = cast("Mapping[int, float]", value)
            return {str(int(kind)): number for kind, number in found.items()}
        case _:
            return value


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []


def has_processes(group: Path) -> bool:
    """Whether a group may have processes, be it that they are just ending."""
    return "populated 0" not in _read(group / "cgroup.events")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:  # the group is not there, or is just going
        return ""


def _read_bytes(path: Path) -> int | None:
    """A size; None without one, as the kernel writes ``max``."""
    text = _read(path).strip()
    return int(text) if text.isdigit() else None
