"""What is to be run, and its outcome."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command of the test run."""

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Jobs that have to pass before it starts."""
    processors: float = 1.0
    """How many it keeps busy on average, on two."""
    memory: int = 512
    """MiB at its peak, with everything that it starts."""
    minutes: float = 1.0
    """What it took on two idle processors: what holds up most is started first."""
    exclusive: frozenset[str] = frozenset()
    """Names of what only one job may use at a time."""
    nice: int = 0
    """What compiles gives way to what measures time."""
    is_test: bool = True
    """A job that only builds counts when it fails, and runs only when a test needs it."""
    is_shown: bool = True
    """Whether its output is shown while it runs; it is always written to its log."""
    limit: float = 60.0
    """Minutes after which it is ended, and has failed."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


class State(enum.Enum):
    """What came of a job."""

    PASSED = "passed"
    FAILED = "FAILED"
    UNCHANGED = "unchanged"
    """It passed before with the same inputs, and was not repeated."""
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many tests of a job ended in which way."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a job, with what its log shows."""

    job: Job
    state: State
    reason: str = ""
    """Why it was not run or has failed; when it passed, if it is unchanged. One line."""
    seconds: float = 0.0
    processor_seconds: float | None = None
    """Of it and of everything that it started; None when it ended without a report."""
    started: float = 0.0
    """Seconds since the run began."""
    counts: Counts = field(default_factory=Counts)
    durations: tuple[tuple[float, str], ...] = ()
    """Seconds and name of its longest tests."""
    tail: tuple[str, ...] = ()
    """Its last lines, when it failed."""
    restarts: tuple[str, ...] = ()
    """Tests on machines that were started anew, with the reason."""


def with_needs(jobs: Iterable[Job], names: Iterable[str]) -> list[Job]:
    """The jobs of these names and what they need of the rest, in the order of ``jobs``."""
    by_name = {job.name: job for job in jobs}
    left, chosen = list(names), set[str]()
    while left:
        name = left.pop()
        if name not in chosen and name in by_name:
            chosen.add(name)
            left += by_name[name].needs
    return [job for job in by_name.values() if job.name in chosen]
