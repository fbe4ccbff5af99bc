"""Runs jobs beside one another. One that fails keeps only those from running that need it."""

import signal
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.run.capacity import Capacity, choose, sort_by_urgency
from tests.run.job import Job, Outcome, State
from tests.run.log import read_log
from tests.run.output import Output
from tests.run.process import Running

SIGNALS = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)
READ_INTERVAL = 0.25
"""Seconds between two reads of what jobs have written."""


class Scheduler:
    """The jobs of one call, until all have an outcome."""

    def __init__(self, jobs: Sequence[Job], capacity: Capacity, folder: Path, output: Output) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._waiting = sort_by_urgency(jobs)
        self._running: list[Running] = []
        self._capacity, self._folder, self._output = capacity, folder, output
        self._stops = 0
        self.outcomes: list[Outcome] = []

    def run(self, passed: Collection[str] = ()) -> list[Outcome]:
        """Run them all; ``passed`` are jobs that did so before. SIGINT and SIGTERM end what runs."""
        done = set(passed)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            while self._waiting or self._running:
                self._give_up(done)
                self._start(done)
                if self._running:
                    self._note(signal.sigtimedwait(SIGNALS, READ_INTERVAL))
                done |= self._collect()
        finally:
            for running in self._running:
                running.kill()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self.outcomes

    @property
    def is_stopped(self) -> bool:
        """Whether the user has ended the run."""
        return self._stops > 0

    def _note(self, caught: signal.struct_siginfo | None) -> None:
        if caught is not None and caught.si_signo in (signal.SIGINT, signal.SIGTERM):
            self._stops += 1
            self._output.line("", "ending what runs; once more kills it")
        if self._stops > 1:
            for running in self._running:
                running.kill()

    def _give_up(self, done: Collection[str]) -> None:
        """Give every job an outcome that can't be run any more."""
        possible = {*done, *(job.name for job in self._waiting), *(one.job.name for one in self._running)}
        for job in list(self._waiting):
            missing = [name for name in job.needs if name not in possible]
            if missing or self._stops:
                reason = f"needs {', '.join(missing)}" if missing else "the run was ended"
                self._waiting.remove(job)
                self._end(Outcome(job=job, state=State.NOT_RUN, reason=reason))
                possible.discard(job.name)

    def _start(self, done: Collection[str]) -> None:
        for job in choose(self._waiting, [one.job for one in self._running], done, self._capacity):
            self._waiting.remove(job)
            self._running.append(Running(job, self._folder))
            self._output.started(job)

    def _collect(self) -> set[str]:
        """Show what jobs have written, and the names of those that have passed by now."""
        passed = set[str]()
        for running in list(self._running):
            code = running.process.poll()
            for line in running.read_lines(to_end=code is not None):
                self._output.job_line(running.job, line)
            if code is None:
                if self._stops or running.seconds > 60 * running.job.limit:
                    running.stop()
                continue
            self._running.remove(running)
            outcome = self._make_outcome(running, code)
            self._end(outcome)
            if outcome.state is State.PASSED:
                passed.add(running.job.name)
        self._output.remind([(one.job, one.seconds) for one in self._running], len(self._waiting))
        return passed

    def _make_outcome(self, running: Running, code: int) -> Outcome:
        seconds, spent = running.seconds, running.close()
        reason = f"exit code {code}"
        if running.interrupted is not None and not self._stops:
            reason = f"took more than {running.job.limit:g} minutes"
        elif running.interrupted is not None:
            reason = "the run was ended"
        lines = running.log.read_text(encoding="utf-8", errors="replace").splitlines()
        log = read_log(lines, is_test=running.job.is_test, has_passed=code == 0)
        return Outcome(
            job=running.job,
            state=State.FAILED if code else State.PASSED,
            reason=reason if code else "",
            seconds=seconds,
            processor_seconds=spent,
            started=running.began - self._output.began,
            counts=log.counts,
            durations=log.durations,
            tail=log.tail if code else (),
            restarts=log.restarts,
        )

    def _end(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._output.ended(outcome)
