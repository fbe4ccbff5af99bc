"""What a command of the client costs: each command line several times, with bytecode at hand.

Processor time is that of the whole process, from its start to its end. Two busy processors can make it half
as much again: they share caches.
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.bench.machine import Measured
from tests.bench.report import Budget, Table, spread
from tests.harness.cluster import REPOSITORY

RUNS = 10
BUDGETS = {"--help": Budget(limit=30, unit="ms")}
CALL_BUDGETS = {"services": Budget(limit=60, unit="ms")}
"""Processor time of a call; a compiled client needs 58 ms for the same."""
PYTHON = REPOSITORY / "python"
TALOSCTL = REPOSITORY / "build/bin/talosctl"
CALLS = ("services", "memory", "get addresses", "version", "list /etc", "logs apid --tail 10")
LINES = (
    "--help",
    "version --client",
    "completion bash",
    "__complete mem",
    "config contexts",
    "memory --help",
    "gen config --help",
)


def measure(argv: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Milliseconds of one run: elapsed, and of processor time."""
    null = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    start = time.perf_counter()
    child = os.posix_spawn(argv[0], argv, environment, file_actions=actions)
    _, status, usage = os.wait4(child, 0)
    elapsed = time.perf_counter() - start
    os.close(null)
    assert os.waitstatus_to_exitcode(status) == 0, argv
    return elapsed * 1000, (usage.ru_utime + usage.ru_stime) * 1000


def test_startup(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PYTHON), *filter(None, sys.path)])
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path / "bytecode")
    environment["HOME"] = str(tmp_path)
    table = Table("talosctl: start to end, ms", ("min", "p50", "max"))
    floor = [measure([sys.executable, "-c", "pass"], environment)[0] for _ in range(RUNS)]
    table.add("python -c pass", *spread(floor))
    for line in LINES:
        argv = [sys.executable, "-m", "talos.talosctl.main", *line.split()]
        measure(argv, environment)  # writes the bytecode
        cells = spread([measure(argv, environment)[0] for _ in range(RUNS)])
        budget = BUDGETS.get(line)
        table.add(f"talosctl {line}", *cells, budget=budget.describe(float(cells[1])) if budget else "")
    table.show()


def test_calls(pair: Measured) -> None:
    """The installed client against a node."""
    environment = {"TALOSCONFIG": str(pair.cluster.talosconfig), "HOME": str(pair.cluster.directory)}
    table = Table("talosctl: processor time of a call, ms", ("min", "p50", "max"))
    for line in CALLS:
        argv = [str(TALOSCTL), "-n", pair.cluster.addresses[0], *line.split()]
        measure(argv, environment)
        cells = spread([measure(argv, environment)[1] for _ in range(2 * RUNS)])
        budget = CALL_BUDGETS.get(line)
        table.add(f"talosctl {line}", *cells, budget=budget.describe(float(cells[1])) if budget else "")
    table.show()
