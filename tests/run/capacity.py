"""How much runs at once: bounded by processors, memory, and what only one may use."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.run.job import Job

MEMORY_SHARE = 0.9
PROCESSOR_SHARE = 1.3
"""What jobs use on average may add up to more than there is: while a suite waits, a machine computes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a machine has for jobs."""

    processors: float
    memory: int
    """MiB."""

    def fits(self, job: Job, running: Collection[Job]) -> bool:
        """Whether a job can start beside these. One alone always can, however large."""
        if not running:
            return True
        if any(job.exclusive & other.exclusive for other in running):
            return False
        processors = job.processors + sum(other.processors for other in running)
        memory = job.memory + sum(other.memory for other in running)
        return processors <= self.processors and memory <= self.memory


def read_capacity() -> Capacity:
    """This machine's, as it is now."""
    meminfo = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    [available] = [int(line.split()[1]) for line in meminfo if line.startswith("MemAvailable:")]
    return Capacity(
        processors=PROCESSOR_SHARE * len(os.sched_getaffinity(0)),
        memory=int(MEMORY_SHARE * available / 1024),
    )


def read_worked(stat: Path = Path("/proc/stat")) -> float:
    """Seconds that this machine's processors have worked since it started, for whatever runs on it.

    What jobs used is not all that they cost: of processes that end with the container that they run in, the
    kernel adds nothing up.
    """
    user, nice, system, _idle, _waiting, irq, softirq, *_ = stat.read_text(encoding="ascii").split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")


def choose(
    waiting: Sequence[Job], running: Collection[Job], done: Collection[str], capacity: Capacity
) -> list[Job]:
    """What can start now, of jobs in the order of their urgency.

    One passes a more urgent one that does not fit if that one will fit all the same once one job has ended.
    """
    chosen: list[Job] = []
    passed: list[Job] = []
    for job in waiting:
        if not set(job.needs) <= set(done):
            continue
        others = [*running, *chosen]
        if capacity.fits(job, others) and all(
            _will_fit(urgent, [*others, job], capacity) for urgent in passed
        ):
            chosen.append(job)
        elif not any(job.exclusive & other.exclusive for other in others):
            passed.append(job)
    return chosen


def _will_fit(job: Job, running: Sequence[Job], capacity: Capacity) -> bool:
    """Whether a job fits beside all but one of these, the last of which is about to start."""
    *others, started = running
    return any(
        capacity.fits(job, [*(each for each in others if each is not ended), started]) for ended in others
    )


def sort_by_urgency(jobs: Sequence[Job]) -> list[Job]:
    """First the one behind which most has to be done, itself included."""
    known: dict[str, float] = {}
    dependents: Mapping[str, list[Job]] = {
        job.name: [other for other in jobs if job.name in other.needs] for job in jobs
    }

    def path(job: Job) -> float:
        if job.name not in known:
            known[job.name] = job.minutes + max(map(path, dependents[job.name]), default=0.0)
        return known[job.name]

    return sorted(jobs, key=path, reverse=True)
