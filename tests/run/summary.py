"""The end of a run: what failed, how long everything took, and how many tests passed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.run.job import Counts, Outcome, State
from tests.run.output import format_time

MAX_LISTED = 20


def count(outcomes: Sequence[Outcome]) -> Counts:
    """All tests of a run."""
    return sum((outcome.counts for outcome in outcomes), Counts())


def has_failed(outcomes: Sequence[Outcome]) -> bool:
    """Whether anything did not pass."""
    return any(outcome.state in (State.FAILED, State.NOT_RUN) for outcome in outcomes)


def format_summary(
    outcomes: Sequence[Outcome], seconds: float, worked: float, folder: str, locks: Sequence[str]
) -> str:
    """All of it, as text, with what is to be reported of the locks.

    ``worked`` are the seconds that the machine's processors did, for the run and whatever ran beside it.
    """
    return "\n".join(
        [
            *_format_failures(outcomes, folder),
            *_format_jobs(outcomes),
            *_format_longest(outcomes),
            *_format_restarts(outcomes),
            *_format_end(outcomes, seconds, worked, folder, locks),
            "",
        ]
    )


def write_report(outcomes: Sequence[Outcome], seconds: float, worked: float, path: Path) -> None:
    """The same for programs, as JSON."""
    rows = [
        {
            "job": outcome.job.name,
            "state": outcome.state.value,
            "reason": outcome.reason,
            "started": round(outcome.started, 1),
            "seconds": round(outcome.seconds, 1),
            "processor_seconds": outcome.processor_seconds and round(outcome.processor_seconds, 1),
            **asdict(outcome.counts),
            "longest": [{"seconds": taken, "test": name} for taken, name in outcome.durations[:MAX_LISTED]],
        }
        for outcome in outcomes
    ]
    times = {"seconds": round(seconds, 1), "machine_processor_seconds": round(worked, 1)}
    document = {**times, **asdict(count(outcomes)), "jobs": rows}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _format_failures(outcomes: Sequence[Outcome], folder: str) -> Iterator[str]:
    for outcome in outcomes:
        if outcome.state is State.FAILED:
            log = f"{folder}/{outcome.job.name}.log"
            yield f"\n=== {outcome.job.name} failed: {outcome.reason}; {log} ends with"
            yield from outcome.tail
    for outcome in outcomes:
        if outcome.state is State.NOT_RUN:
            yield f"\n=== {outcome.job.name} was not run: {outcome.reason}"


def _format_jobs(outcomes: Sequence[Outcome]) -> Iterator[str]:
    titles = f"{'job':<22} {'result':<10} {'from':>7} {'took':>7} {'processor':>10}"
    yield f"\n{titles} {'passed':>7} {'failed':>7} {'skipped':>8}"
    for outcome in sorted(outcomes, key=lambda one: (one.state is State.UNCHANGED, one.started)):
        has_run = outcome.state in (State.PASSED, State.FAILED)
        spent = "" if outcome.processor_seconds is None else format_time(outcome.processor_seconds)
        counts = outcome.counts
        row = (
            f"{outcome.job.name:<22} {outcome.state.value:<10} "
            f"{format_time(outcome.started) if has_run else '':>7} "
            f"{format_time(outcome.seconds) if has_run else '':>7} {spent:>10} "
            f"{counts.passed or '':>7} {counts.failed or '':>7} {counts.skipped or '':>8}"
        )
        yield f"{row}  {outcome.reason}".rstrip() if outcome.state is State.UNCHANGED else row.rstrip()


def find_longest(outcomes: Sequence[Outcome]) -> list[tuple[float, str]]:
    """Seconds and names of the tests that were run, the longest first."""
    tests = [
        (seconds, name)
        for outcome in outcomes
        if outcome.state is not State.UNCHANGED
        for seconds, name in outcome.durations
    ]
    return sorted(tests, reverse=True)


def find_restarts(outcomes: Sequence[Outcome]) -> list[str]:
    """Tests on machines that were started anew, with their jobs and the reasons."""
    return [
        f"{outcome.job.name}: {line}"
        for outcome in outcomes
        if outcome.state is not State.UNCHANGED
        for line in outcome.restarts
    ]


def _format_longest(outcomes: Sequence[Outcome]) -> Iterator[str]:
    tests = find_longest(outcomes)[:MAX_LISTED]
    if tests:
        yield f"\nThe longest tests, in seconds ({len(tests)}):"
        for seconds, name in tests:
            yield f"{seconds:>8.1f}  {name}"


def _format_restarts(outcomes: Sequence[Outcome]) -> Iterator[str]:
    if restarts := find_restarts(outcomes):
        yield f"\nStarted anew, as an emulated processor stood still ({len(restarts)}):"
        yield from (f"  {line}" for line in restarts)


def _format_end(
    outcomes: Sequence[Outcome], seconds: float, worked: float, folder: str, locks: Sequence[str]
) -> Iterator[str]:
    counts = count(outcomes)
    spent = sum(outcome.processor_seconds or 0 for outcome in outcomes)
    states = [outcome.state for outcome in outcomes]
    yield (
        f"\n{format_time(seconds)} minutes, {format_time(spent)} of processor time in jobs, "
        f"{format_time(worked)} of the whole machine; "
        f"{states.count(State.UNCHANGED)} jobs unchanged, {states.count(State.NOT_RUN)} not run, "
        f"{counts.skipped} tests skipped; {folder}/report.html"
    )
    yield from locks
    yield f"{counts.passed} passed, {counts.failed} failed"
