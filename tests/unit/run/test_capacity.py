"""What starts beside what, and in which order."""

import os
from pathlib import Path

from tests.run.capacity import Capacity, choose, read_worked, sort_by_urgency
from tests.run.job import Job

CAPACITY = Capacity(processors=2.5, memory=8000)


def job(
    name: str,
    *needs: str,
    processors: float = 1.0,
    memory: int = 100,
    minutes: float = 1,
    exclusive: str = "",
) -> Job:
    return Job(
        name=name, command=(), needs=needs, processors=processors, memory=memory, minutes=minutes,
        exclusive=frozenset(exclusive.split()),
    )  # fmt: skip


def names(jobs: list[Job]) -> list[str]:
    return [each.name for each in jobs]


def test_first_comes_what_most_waits_for() -> None:
    jobs = [
        job("short"),
        job("kernel", minutes=24),
        job("boot", "kernel", minutes=2),
        job("long", minutes=25),
    ]
    assert names(sort_by_urgency(jobs)) == ["kernel", "long", "boot", "short"]


def test_smaller_jobs_pass_one_that_does_not_fit() -> None:
    jobs = [job("machine", processors=1.5), job("other machine", processors=1.5), job("suite")]
    assert names(choose(jobs, [], [], CAPACITY)) == ["machine", "suite"]


def test_no_job_passes_whose_start_would_hold_up_a_more_urgent_one() -> None:
    running = [job("suite", processors=0.8), job("lint", processors=0.5), job("root", processors=0.3)]
    waiting = [job("machine"), job("unit", processors=0.8), job("format", processors=0.4)]
    assert names(choose(waiting, running, [], CAPACITY)) == ["format"]
    assert names(choose(waiting[:2], running[:2], [], CAPACITY)) == ["machine"]
    assert names(choose(waiting[1:], running, [], CAPACITY)) == ["unit"]


def test_memory_bounds_what_runs_at_once() -> None:
    assert names(choose([job("a", memory=5000), job("b", memory=5000)], [], [], CAPACITY)) == ["a"]


def test_one_job_alone_may_be_larger_than_the_machine() -> None:
    large = job("large", processors=8, memory=50_000)
    assert names(choose([large], [], [], CAPACITY)) == ["large"]
    assert not choose([large], [job("small")], [], CAPACITY)


def test_what_only_one_may_use_keeps_jobs_apart() -> None:
    jobs = [job("kernel", exclusive="compiler"), job("kubernetes", exclusive="compiler"), job("suite")]
    assert names(choose(jobs, [], [], CAPACITY)) == ["kernel", "suite"]
    assert not choose(jobs[1:2], [jobs[0]], [], CAPACITY)


def test_nothing_starts_before_what_it_needs() -> None:
    assert not choose([job("boot", "kernel")], [], ["image"], CAPACITY)
    assert names(choose([job("boot", "kernel")], [], ["kernel"], CAPACITY)) == ["boot"]


def test_processors_work_in_all_but_what_is_idle_waits_or_is_stolen(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  1000 20 300 90000 7000 4 6 8000 500 0\ncpu0 1 2 3\n", encoding="ascii")
    assert read_worked(stat) == 1330 / os.sysconf("SC_CLK_TCK")
