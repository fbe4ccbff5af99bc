"""How long the client takes to say something: each command line ten times, with bytecode at hand.

Run it as a program: ``python tests/bench/talosctl_startup.py``. The budget is 150 ms.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

BUDGET_MS = 150
RUNS = 10
PYTHON = Path(__file__).parents[2] / "python"
ROWS = (
    ("python -c pass (the floor)", ["-c", "pass"]),
    ("talosctl --help", ["-m", "talos.talosctl.main", "--help"]),
    ("talosctl version --client", ["-m", "talos.talosctl.main", "version", "--client"]),
    ("talosctl completion bash", ["-m", "talos.talosctl.main", "completion", "bash"]),
    ("talosctl __complete mem", ["-m", "talos.talosctl.main", "__complete", "bare", "mem"]),
    ("talosctl config contexts", ["-m", "talos.talosctl.main", "config", "contexts"]),
    ("talosctl memory --help", ["-m", "talos.talosctl.main", "memory", "--help"]),
    ("talosctl gen config --help", ["-m", "talos.talosctl.main", "gen", "config", "--help"]),
)


def measure(words: list[str], environment: dict[str, str]) -> float:
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


def main() -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(PYTHON), *filter(None, [environment.get("PYTHONPATH")])]
        )
        environment["PYTHONPYCACHEPREFIX"] = folder
        environment["HOME"] = folder
        print(f"{'command':<30} {'p50 ms':>8} {'max ms':>8}   budget {BUDGET_MS} ms")  # noqa: T201
        for title, words in ROWS:
            measure(words, environment)  # writes the bytecode
            times = [measure(words, environment) for _ in range(RUNS)]
            print(f"{title:<30} {statistics.median(times):>8.1f} {max(times):>8.1f}")  # noqa: T201


if __name__ == "__main__":
    main()
