"""Which lines and branches of each package tests run: a plugin for pytest, `make coverage`.

It counts by `sys.monitoring`: a line is reported once, a branch until it has gone both ways, so that tests
take little longer. Processes that a test forks or starts are not counted, nor is what only a node does.
"""

import dis
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).resolve().parents[1] / "python" / "talos"
SPLIT_FOLDERS = {"machined", "config", "talosctl", "rpc", "disks", "upgrade"}
"""Folders whose own folders have a row each."""
MIN_LINES = 40
"""Of a module that is named among those that tests reach least."""
NAMED = 25

_PREFIX = f"{ROOT}/"
_TOOL, _DISABLE = sys.monitoring.COVERAGE_ID, sys.monitoring.DISABLE
_BRANCHES = {
    dis.opmap[name]
    for name in (
        "FOR_ITER",
        "POP_JUMP_IF_FALSE",
        "POP_JUMP_IF_NONE",
        "POP_JUMP_IF_NOT_NONE",
        "POP_JUMP_IF_TRUE",
    )
}
"""Instructions that CPython 3.13 reports as a branch."""


@dataclass(slots=True)
class Recorder:
    """What has run, by file."""

    lines: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    branches: dict[tuple[str, int, str, int], set[int]] = field(
        default_factory=dict[tuple[str, int, str, int], set[int]]
    )
    """Where a branch went; by file, first line and name of its function, and the instruction."""

    def start(self) -> None:
        """Count from now on."""
        events = sys.monitoring.events
        sys.monitoring.use_tool_id(_TOOL, "packages")
        sys.monitoring.register_callback(_TOOL, events.LINE, self._see_line)
        sys.monitoring.register_callback(_TOOL, events.BRANCH, self._see_branch)
        sys.monitoring.set_events(_TOOL, events.LINE | events.BRANCH)

    def stop(self) -> None:
        """Count no more."""
        sys.monitoring.set_events(_TOOL, sys.monitoring.events.NO_EVENTS)
        sys.monitoring.free_tool_id(_TOOL)

    def _see_line(self, code: CodeType, line: int) -> object:
        if code.co_filename.startswith(_PREFIX):
            self.lines.add((code.co_filename, line))
        return _DISABLE

    def _see_branch(self, code: CodeType, offset: int, target: int) -> object:
        if not code.co_filename.startswith(_PREFIX):
            return _DISABLE
        key = (code.co_filename, code.co_firstlineno, code.co_qualname, offset)
        ways = self.branches.setdefault(key, set())
        ways.add(target)
        return _DISABLE if len(ways) > 1 else None


@dataclass(slots=True)
class Count:
    """Lines and ways of branches: how many there are, how many have run."""

    lines: int = 0
    run: int = 0
    ways: int = 0
    taken: int = 0

    def add(self, other: "Count") -> None:
        """Count these, too."""
        self.lines += other.lines
        self.run += other.run
        self.ways += other.ways
        self.taken += other.taken

    def format(self, name: str) -> str:
        """A row of the table."""
        lines = f"{100 * self.run / self.lines:5.1f}" if self.lines else "    -"
        ways = f"{100 * self.taken / self.ways:5.1f}" if self.ways else "    -"
        return f"| {name} | {self.lines} | {lines} | {self.ways} | {ways} |"


def walk_code(code: CodeType) -> Iterator[CodeType]:
    """A code object and those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from walk_code(constant)


def count_module(path: Path, recorder: Recorder) -> Count:
    """What there is in a module, and what of it has run."""
    file = str(path)
    lines = set[int]()
    count = Count()
    for code in walk_code(compile(path.read_text(encoding="utf-8"), file, "exec")):
        lines |= {line for _, _, line in code.co_lines() if line}
        for instruction in dis.get_instructions(code):
            if instruction.opcode in _BRANCHES:
                key = (file, code.co_firstlineno, code.co_qualname, instruction.offset)
                count.ways += 2
                count.taken += len(recorder.branches.get(key, ()))
    count.lines = len(lines)
    count.run = sum((file, line) in recorder.lines for line in lines)
    return count


def name_package(path: Path) -> str:
    """The row of a module: its folder, or the folder within that."""
    folder, *rest = path.relative_to(ROOT).parts
    return f"{folder}/{rest[0]}" if folder in SPLIT_FOLDERS and len(rest) > 1 else folder


def render(recorder: Recorder) -> Sequence[str]:
    """Tables of the packages, and of the modules that tests reach least."""
    packages: dict[str, Count] = {}
    modules: list[tuple[float, str, Count]] = []
    total = Count()
    for path in sorted(ROOT.rglob("*.py")):
        if path.name.endswith("_pb2.py"):
            continue
        count = count_module(path, recorder)
        packages.setdefault(name_package(path), Count()).add(count)
        total.add(count)
        if count.lines >= MIN_LINES:
            modules.append((count.run / count.lines, str(path.relative_to(ROOT)), count))
    head = ["| {} | lines | % | ways of branches | % |", "|---|---|---|---|---|"]
    rows = [count.format(f"`{name}/`") for name, count in sorted(packages.items())]
    minimum = [
        count.format(f"`{name}`") for _, name, count in sorted(modules, key=lambda row: row[0])[:NAMED]
    ]
    return [
        *(line.format("package") for line in head),
        total.format("all"),
        *rows,
        "",
        *(line.format("module") for line in head),
        *minimum,
    ]


_RECORDER = Recorder()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Begin before anything is imported that is counted."""
    _RECORDER.start()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables."""
    _RECORDER.stop()
    terminalreporter.section("coverage")
    for line in render(_RECORDER):
        terminalreporter.write_line(line)
