"""What clients saw of registers, and whether one register each could have answered so.

Every value is written once, which makes the check easy where it is NP-complete in general (Gibbons and
Korach, "Testing shared memories", SIAM Journal on Computing 26, 1997): per value, the write and its reads
leave a zone of time. Linearizability is local (Herlihy and Wing, 1990), so keys are checked one by one.
"""

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

INITIAL = ""
"""What a key has before the first write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A write or a read of a key that began and ended at these seconds of one clock.

    A write whose outcome is unknown never ends: it may take effect at any later time, or never.
    """

    client: str
    key: str
    value: str
    is_write: bool
    begin: float
    end: float

    def __str__(self) -> str:
        verb = "wrote" if self.is_write else "read"
        return f"{self.begin:.4f} to {self.end:.4f}: {self.client} {verb} {self.key}={self.value!r}"


@dataclass(slots=True)
class History:
    """Operations of many threads."""

    operations: list[Operation] = field(default_factory=list[Operation])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, operation: Operation) -> None:
        """Record an operation that has ended, or whose outcome will never be known."""
        with self._lock:
            self.operations.append(operation)

    def count_acknowledged(self) -> int:
        """Writes that were acknowledged."""
        with self._lock:
            return sum(one.is_write and one.end < math.inf for one in self.operations)


@dataclass(frozen=True, slots=True)
class _Zone:
    """The time that a value takes up in every order of the operations.

    From the first end to the last begin the key has the value, when the ends begin so early; otherwise
    there is a moment between the last begin and the first end at which it had the value.
    """

    value: str
    first_end: float
    last_begin: float

    @property
    def is_forward(self) -> bool:
        return self.first_end < self.last_begin


def check_linearizability(operations: Iterable[Operation]) -> list[str]:
    """What no register could have answered; empty when every answer is possible."""
    keys: dict[str, list[Operation]] = {}
    for operation in operations:
        keys.setdefault(operation.key, []).append(operation)
    return [problem for key, found in sorted(keys.items()) for problem in _check_key(key, found)]


def _check_key(key: str, operations: list[Operation]) -> list[str]:
    start = Operation(client="nobody", key=key, value=INITIAL, is_write=True, begin=-math.inf, end=-math.inf)
    writes = {INITIAL: start}
    problems: list[str] = []
    for operation in operations:
        if operation.is_write:
            assert operation.value not in writes, f"written twice: {operation}"
            writes[operation.value] = operation
    by_value: dict[str, list[Operation]] = {value: [] for value in writes}
    for operation in operations:
        if operation.is_write:
            continue
        write = writes.get(operation.value)
        if write is None:
            problems.append(f"never written: {operation}")
        elif operation.end < write.begin:
            problems.append(f"read before it was written: {operation}; {write}")
        else:
            by_value[operation.value].append(operation)
    zones = [
        _Zone(
            value,
            min(one.end for one in (writes[value], *reads)),
            max(one.begin for one in (writes[value], *reads)),
        )
        for value, reads in by_value.items()
        # What was never read and perhaps never written conflicts with nothing.
        if reads or writes[value].end < math.inf
    ]
    return problems + [
        f"{key} had two values at a time: {_describe(one, writes)}; {_describe(other, writes)}"
        for one, other in _find_conflicts(zones)
    ]


def _find_conflicts(zones: Iterable[_Zone]) -> Iterable[tuple[_Zone, _Zone]]:
    """Forward zones that overlap, and others that lie within a forward one."""
    forward: _Zone | None = None
    # In the order of their first moment: the forward zone that reaches farthest covers all others.
    for zone in sorted(zones, key=lambda zone: min(zone.first_end, zone.last_begin)):
        if forward is not None and zone.first_end < forward.last_begin:
            yield forward, zone
        if zone.is_forward and (forward is None or zone.last_begin > forward.last_begin):
            forward = zone


def _describe(zone: _Zone, writes: dict[str, Operation]) -> str:
    times = sorted((zone.first_end, zone.last_begin))
    kind = "all the time" if zone.is_forward else "at some time"
    return f"{kind} from {times[0]:.4f} to {times[1]:.4f} {zone.value!r} ({writes[zone.value]})"
