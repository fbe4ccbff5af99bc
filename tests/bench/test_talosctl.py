"""How long the client takes to say something: each command line ten times, with bytecode at hand."""

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.report import Budget, Table, spread

BUDGET = Budget(limit=150, unit="ms")
RUNS = 10
CLIENT = ("-m", "talos.talosctl.main")
ROWS = (
    ("python -c pass (the floor)", ("-c", "pass"), False),
    ("talosctl --help", (*CLIENT, "--help"), True),
    ("talosctl version --client", (*CLIENT, "version", "--client"), True),
    ("talosctl completion bash", (*CLIENT, "completion", "bash"), False),
    ("talosctl __complete mem", (*CLIENT, "__complete", "bare", "mem"), False),
    ("talosctl config contexts", (*CLIENT, "config", "contexts"), False),
    ("talosctl memory --help", (*CLIENT, "memory", "--help"), False),
    ("talosctl gen config --help", (*CLIENT, "gen", "config", "--help"), False),
)


def measure(words: tuple[str, ...], environment: dict[str, str]) -> float:
    """Milliseconds of one run."""
    null = os.open(os.devnull, os.O_WRONLY)
    start = time.perf_counter()
    actions = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    child = os.posix_spawn(sys.executable, [sys.executable, *words], environment, file_actions=actions)
    status = os.waitpid(child, 0)[1]
    elapsed = time.perf_counter() - start
    os.close(null)
    assert os.waitstatus_to_exitcode(status) == 0, words
    return elapsed * 1000


def test_talosctl() -> None:
    table = Table(f"Start-up of the client, {RUNS} runs, ms", ("min", "median", "max"))
    with tempfile.TemporaryDirectory() as folder:
        # Bytecode goes to a folder of this test's, whatever the work tree holds.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if Path(entry).is_dir())
        environment["PYTHONPYCACHEPREFIX"] = folder
        environment["HOME"] = folder
        for title, words, is_budgeted in ROWS:
            measure(words, environment)  # writes the bytecode
            times = [measure(words, environment) for _ in range(RUNS)]
            judged = BUDGET.judge(sorted(times)[RUNS // 2]) if is_budgeted else ""
            table.add(title, *spread(times), budget=judged)
    table.show()
