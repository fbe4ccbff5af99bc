"""Unified hunks between texts of many parts, in time that is bounded.

``difflib`` alone took six minutes for two configs of 8 MB with a change in each of 96 manifests. Parts are
matched by their names, and compared only from their first to their last line that differs.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, override

MAX_WORK = 20_000_000
"""Pairs of lines that are compared, of all parts together; beyond it what differs is replaced as a whole."""

type Parts = Mapping[str, Sequence[str]]
type Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class _PresetOpcodes(difflib.SequenceMatcher[str]):
    """Opcodes that were found already, to be grouped."""

    def __init__(self, opcodes: list[Opcode]) -> None:
        super().__init__()
        self._known = opcodes

    @override
    def get_opcodes(self) -> list[Opcode]:
        return self._known


def find_hunks(before: Parts, after: Parts) -> Iterator[str]:
    """The lines of a unified diff of the joined parts, without line ends; none when nothing changes."""
    left = [line for part in before.values() for line in part]
    right = [line for part in after.values() for line in part]
    opcodes = _join_equal(_match_parts(before, after))
    if all(code == "equal" for code, *_ in opcodes):
        return
    yield from ("--- a", "+++ b")
    for group in _PresetOpcodes(opcodes).get_grouped_opcodes():
        first, last = group[0], group[-1]
        ranges = (_format_range(first[1], last[2]), _format_range(first[3], last[4]))
        yield "@@ -{} +{} @@".format(*ranges)
        for code, i1, i2, j1, j2 in group:
            if code == "equal":
                yield from (f" {line}" for line in left[i1:i2])
            else:
                yield from (f"-{line}" for line in left[i1:i2])
                yield from (f"+{line}" for line in right[j1:j2])


def _join_equal(opcodes: Iterator[Opcode]) -> list[Opcode]:
    """With one piece for equal parts in a row: grouping shortens long ones only."""
    found: list[Opcode] = []
    for code, i1, i2, j1, j2 in opcodes:
        if code == "equal" and found and found[-1][0] == "equal":
            _, i1, _, j1, _ = found.pop()
        found.append((code, i1, i2, j1, j2))
    return found


def _format_range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _match_parts(before: Parts, after: Parts) -> Iterator[Opcode]:
    names, others = list(before), list(after)
    i = j = 0
    work = MAX_WORK
    for code, i1, i2, j1, j2 in difflib.SequenceMatcher(None, names, others, autojunk=False).get_opcodes():
        if code == "equal":
            for name in names[i1:i2]:
                old, new = before[name], after[name]
                head, tail = _find_ends(old, new)
                cost = (len(old) - head - tail) * (len(new) - head - tail)
                work -= cost
                for part, *ends in _match_lines(old, new, head, tail, is_cheap=work >= 0):
                    yield part, ends[0] + i, ends[1] + i, ends[2] + j, ends[3] + j
                i, j = i + len(old), j + len(new)
            continue
        gone = sum(len(before[name]) for name in names[i1:i2])
        added = sum(len(after[name]) for name in others[j1:j2])
        yield code, i, i + gone, j, j + added
        i, j = i + gone, j + added


def _find_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines at the beginning, and of the rest at the end, are the same."""
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - head
    return head, next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)


def _match_lines(
    old: Sequence[str], new: Sequence[str], head: int, tail: int, *, is_cheap: bool
) -> Iterator[Opcode]:
    i, j = len(old) - tail, len(new) - tail
    if head:
        yield "equal", 0, head, 0, head
    if is_cheap:
        matcher = difflib.SequenceMatcher(None, old[head:i], new[head:j])
        for code, i1, i2, j1, j2 in matcher.get_opcodes():
            yield code, head + i1, head + i2, head + j1, head + j2
    elif head < i or head < j:
        yield "replace", head, i, head, j
    if tail:
        yield "equal", i, len(old), j, len(new)
