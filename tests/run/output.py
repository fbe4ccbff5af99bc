"""What a run shows while it goes on: plain lines, each with the job's name in front."""

import time
from collections.abc import Sequence
from typing import TextIO

from tests.run.job import Job, Outcome, State
from tests.run.log import clean

REMINDER_INTERVAL = 60.0  # seconds
NAME_WIDTH = 16


class Output:
    """Lines to a stream, in the order in which they come."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.began = self._last = time.monotonic()

    def line(self, name: str, text: str) -> None:
        """One line, of a job or of the run itself."""
        self._stream.write(f"{name:{NAME_WIDTH}} | {text}\n")
        self._stream.flush()
        self._last = time.monotonic()

    def job_line(self, job: Job, text: str) -> None:
        """What a job wrote."""
        if job.is_shown and text.strip():
            self.line(job.name, clean(text))

    def started(self, job: Job) -> None:
        """A job begins."""
        self.line(job.name, f"started at {format_time(time.monotonic() - self.began)}")

    def ended(self, outcome: Outcome) -> None:
        """A job has its outcome."""
        text = outcome.state.value
        if outcome.state in (State.PASSED, State.FAILED):
            text += f" after {format_time(outcome.seconds)}"
        self.line(outcome.job.name, text + (f": {outcome.reason}" if outcome.reason else ""))

    def remind(self, running: Sequence[tuple[Job, float]], waiting: int) -> None:
        """After a minute without a line: what runs."""
        if running and time.monotonic() - self._last > REMINDER_INTERVAL:
            names = ", ".join(f"{job.name} {format_time(seconds)}" for job, seconds in running)
            self.line("", f"running: {names}; {waiting} more to do")


def format_time(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
