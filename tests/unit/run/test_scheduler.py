"""Jobs with commands of a moment: what runs, beside what, and the outcome."""

import io
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.run.capacity import Capacity
from tests.run.job import Job, Outcome, State
from tests.run.output import Output
from tests.run.scheduler import Scheduler

TIMEOUT = 20.0  # seconds


def job(name: str, script: str = "true", *needs: str, limit: float = 1.0, processors: float = 1.0) -> Job:
    return Job(name=name, command=("sh", "-c", script), needs=needs, limit=limit, processors=processors)


def run(folder: Path, *jobs: Job, processors: float = 2.0) -> dict[str, Outcome]:
    capacity = Capacity(processors=processors, memory=10_000)
    outcomes = Scheduler(jobs, capacity, folder, Output(io.StringIO())).run()
    return {outcome.job.name: outcome for outcome in outcomes}


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_failed_job_keeps_only_those_from_running_that_need_it(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        job("broken", "echo no; exit 3"),
        job("dependent", "true", "broken"),
        job("its-dependent", "true", "dependent"),
        job("other"),
        job("last", "true", "other"),
    )
    assert {name: outcome.state for name, outcome in found.items()} == {
        "broken": State.FAILED,
        "dependent": State.NOT_RUN,
        "its-dependent": State.NOT_RUN,
        "other": State.PASSED,
        "last": State.PASSED,
    }
    assert (found["broken"].reason, found["broken"].tail) == ("exit code 3", ("no",))
    assert found["dependent"].reason == "needs broken"


def test_job_begins_when_what_it_needs_has_passed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    found = run(tmp_path, job("second", f"test -e {mark}", "first"), job("first", f"sleep 0.1; touch {mark}"))
    assert found["second"].state is State.PASSED


def test_jobs_run_side_by_side_while_there_is_room(tmp_path: Path) -> None:
    """Each waits for the other's mark."""
    one, two = tmp_path / "1", tmp_path / "2"
    wait = "for i in $(seq 500); do test -e {} && exit 0; sleep 0.01; done; exit 1"
    found = run(
        tmp_path,
        job("one", f"touch {one}; {wait.format(two)}"),
        job("two", f"touch {two}; {wait.format(one)}"),
    )
    assert {outcome.state for outcome in found.values()} == {State.PASSED}


def test_more_than_there_is_room_for_run_in_turn(tmp_path: Path) -> None:
    script = f"mkdir {tmp_path}/lock && sleep 0.05 && rmdir {tmp_path}/lock"
    found = run(tmp_path, *(job(name, script, processors=1.5) for name in ("one", "two", "three")))
    assert {outcome.state for outcome in found.values()} == {State.PASSED}


def test_output_is_shown_with_the_name_and_kept(tmp_path: Path) -> None:
    shown = io.StringIO()
    jobs = [job("says", "echo one; printf two")]
    Scheduler(jobs, Capacity(processors=1, memory=1), tmp_path, Output(shown)).run()
    lines = shown.getvalue().splitlines()
    assert [line.split(" | ")[1] for line in lines][1:3] == ["one", "two"]
    assert {line.split(" | ")[0].strip() for line in lines} == {"says"}
    assert (tmp_path / "says.log").read_text(encoding="utf-8") == "one\ntwo"


def test_tests_are_counted_from_the_log(tmp_path: Path) -> None:
    [outcome] = run(
        tmp_path, job("unit", "echo '== 2 failed, 12 passed, 1 skipped in 3.20s =='; exit 1")
    ).values()
    assert (outcome.counts.passed, outcome.counts.failed, outcome.counts.skipped) == (12, 2, 1)


def test_processor_time_is_that_of_all_that_a_job_started(tmp_path: Path) -> None:
    """What detaches itself counts, and does not outlive the job."""
    burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $$ > pid; sleep 600"
    script = f"cd {tmp_path}; (sh -c '{burn}' &); while [ ! -s pid ]; do sleep 0.01; done"
    [outcome] = run(tmp_path, job("detaches", script)).values()
    assert outcome.state is State.PASSED
    assert outcome.processor_seconds is not None
    assert outcome.processor_seconds > 0.02
    assert not Path("/proc", (tmp_path / "pid").read_text(encoding="ascii").strip()).exists()
    assert "left running, ended now: sh -c" in (tmp_path / "detaches.log").read_text(encoding="utf-8")


def test_job_over_its_limit_is_ended(tmp_path: Path) -> None:
    found = run(tmp_path, job("hangs", "exec sleep 600", limit=0.002), job("after", "true", "hangs"))
    assert found["hangs"].state is State.FAILED
    assert found["hangs"].reason == "took more than 0.002 minutes"
    assert found["after"].state is State.NOT_RUN


def test_interrupt_ends_what_runs_and_begins_nothing(tmp_path: Path) -> None:
    """As Ctrl-C does; a test run cleans up at an interrupt."""
    started, cleaned = tmp_path / "started", tmp_path / "cleaned"
    script = f"trap 'touch {cleaned}; exit 1' INT; touch {started}; while :; do sleep 0.05; done"
    main = threading.get_ident()

    def interrupt() -> None:
        wait_for(started.exists)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    found = run(tmp_path, job("runs", script), job("waits", "true", "runs"), job("big", processors=9))
    thread.join()
    assert cleaned.exists()
    assert {name: (outcome.state, outcome.reason) for name, outcome in found.items()} == {
        "runs": (State.FAILED, "the run was ended"),
        "waits": (State.NOT_RUN, "the run was ended"),
        "big": (State.NOT_RUN, "the run was ended"),
    }


def test_jobs_get_neither_the_make_above_nor_its_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKEFLAGS", "--jobserver-auth=3,4")
    [outcome] = run(tmp_path, job("checks", 'test -z "$MAKEFLAGS" && test -n "$PATH"')).values()
    assert outcome.state is State.PASSED
    assert os.environ["MAKEFLAGS"]
