"""How long the client takes to say something: each command line ten times, with bytecode at hand."""

import os
import sys
import time
from pathlib import Path

from tests.bench.report import Budget, Table, spread

RUNS = 10
BUDGET = Budget(limit=150, unit="ms")
PYTHON = Path(__file__).parents[2] / "python"
BUDGETED = ("--help", "version --client")
LINES = (
    *BUDGETED,
    "completion bash",
    "__complete bare mem",
    "config contexts",
    "memory --help",
    "gen config --help",
)


def measure(words: list[str], environment: dict[str, str]) -> float:
    """Milliseconds of one run."""
    null = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    start = time.perf_counter()
    child = os.posix_spawn(sys.executable, [sys.executable, *words], environment, file_actions=actions)
    status = os.waitpid(child, 0)[1]
    elapsed = time.perf_counter() - start
    os.close(null)
    assert os.waitstatus_to_exitcode(status) == 0, words
    return elapsed * 1000


def test_startup(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PYTHON), *filter(None, sys.path)])
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "bytecode")
    environment["HOME"] = str(tmp_path)
    table = Table("talosctl: start to end, ms", ("min", "p50", "max"))
    floor = [measure(["-c", "pass"], environment) for _ in range(RUNS)]
    table.add("python -c pass", *spread(floor))
    for line in LINES:
        words = ["-m", "talos.talosctl.main", *line.split()]
        measure(words, environment)  # writes the bytecode
        times = [measure(words, environment) for _ in range(RUNS)]
        cells = spread(times)
        budget = BUDGET.judge(float(cells[1])) if line in BUDGETED else ""
        table.add(f"talosctl {line}", *cells, budget=budget)
    table.show()
