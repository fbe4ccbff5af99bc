"""Runs all tests, `make test`, or with --changed quick ones alone, `make check`.

    python3 -m tests.run [--fresh] [--without "NAME …"] [NAME …]
    python3 -m tests.run --changed [--base COMMIT]

With names, only those jobs and what they need. Uses the host's own Python (3.11 or newer) and nothing but
its standard library, because it runs before anything is built. The exit code is 0 only when every
job passed.
"""

import argparse
import fcntl
import os
import sys
import time
from pathlib import Path

from tests.run.capacity import read_capacity, read_worked
from tests.run.changed import make_check_jobs
from tests.run.job import Counts, Job, Outcome, State
from tests.run.jobs import FETCH
from tests.run.locks import describe_locks
from tests.run.nix import NixError
from tests.run.output import Output
from tests.run.page import write_page
from tests.run.plan import make_plan, remember
from tests.run.process import REPOSITORY
from tests.run.scheduler import Scheduler
from tests.run.summary import format_summary, has_failed, write_report

FOLDER = REPOSITORY / "build"
"""Logs and the reports are in build/test, those of `make check` in build/check."""
PLAN = Job(name="plan", command=("nix", "eval"))
"""The row of the plan itself, when the flake has errors or a name is unknown."""


def main() -> int:
    """Fetch, plan, run, report."""
    parser = argparse.ArgumentParser(prog="make test", description="Run all tests.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="jobs to run, with what they need; else all")
    parser.add_argument("--fresh", action="store_true", help="repeat suites that passed with the same inputs")
    parser.add_argument(
        "--without", default="", metavar="NAMES", help="checks to leave out unless they are named"
    )
    parser.add_argument(
        "--changed", action="store_true", help="linters, types, unit tests of what was changed"
    )
    parser.add_argument("--base", default="", metavar="COMMIT", help="since which it was; else the last push")
    arguments = parser.parse_args()
    folder = FOLDER / ("check" if arguments.changed else "test")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write(f"{folder}: another run writes there; wait for its end, or use another clone\n")
            return 1
        return run(arguments, folder)


def run(arguments: argparse.Namespace, folder: Path) -> int:
    """Run the requested jobs; the exit code."""
    began, worked_before = time.monotonic(), read_worked()
    output = Output(sys.stdout)
    try:
        outcomes = (run_changed if arguments.changed else run_all)(arguments, folder, output)
    except (ValueError, NixError) as error:
        lines = tuple(str(error).splitlines()) or ("no reason is known",)
        counts = Counts(failed=1)
        outcomes = [Outcome(job=PLAN, state=State.FAILED, counts=counts, reason=lines[-1], tail=lines)]
    seconds, worked = time.monotonic() - began, read_worked() - worked_before
    place, locks = str(folder.relative_to(REPOSITORY)), describe_locks()
    write_report(outcomes, seconds, worked, folder / "report.json")
    write_page(outcomes, seconds, locks, folder / "report.html")
    sys.stdout.write(format_summary(outcomes, seconds, worked, place, locks))
    return 1 if has_failed(outcomes) else 0


def run_all(arguments: argparse.Namespace, folder: Path, output: Output) -> list[Outcome]:
    """What came of every job."""
    capacity, stamps = read_capacity(), folder / "passed"
    output.line("", f"there is room for {capacity.processors:g} processors' jobs and {capacity.memory} MiB")
    outcomes = Scheduler([FETCH], capacity, folder, output).run()
    for line in describe_locks():  # fetching takes newer ones for what the archive has no more
        output.line("", line)
    if has_failed(outcomes):
        return outcomes
    plan = make_plan(
        wanted=arguments.names,
        without=arguments.without.split(),
        may_skip=not (arguments.fresh or is_continuous_integration()),
        stamps=stamps,
    )
    for outcome in plan.unchanged:
        output.ended(outcome)
    later = Scheduler(plan.jobs, capacity, folder, output).run(passed=[FETCH.name])
    remember(later, plan, stamps)
    return [*outcomes, *plan.unchanged, *later]


def run_changed(arguments: argparse.Namespace, folder: Path, output: Output) -> list[Outcome]:
    """What came of the jobs of `make check`."""
    jobs = make_check_jobs(arguments.base)
    return Scheduler(jobs, read_capacity(), folder, output).run(passed=[FETCH.name])


def is_continuous_integration() -> bool:
    """Whether a pass of this machine's is not good enough: CI= is set by hosts of such machines."""
    return os.environ.get("CI", "") not in ("", "0", "false")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # outside of a scheduler's run nothing has to be ended
        sys.exit(130)
