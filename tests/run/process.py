"""A job while it runs: its process, its log, and what of that was shown already."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.run.job import Job

REPOSITORY = Path(__file__).resolve().parents[2]
TERM_TIMEOUT, KILL_TIMEOUT = 90.0, 120.0  # seconds
"""After the interrupt: tests destroy their clusters first."""
HIDDEN = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"}
"""What a make gives to one below it: a job's make is the first of its own."""


class Running:
    """A job's process group. Its output goes to a file, so that nothing waits for its reader."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.log = folder / f"{job.name}.log"
        self.usage = folder / f"{job.name}.usage"
        self.usage.unlink(missing_ok=True)
        self.began = time.monotonic()
        self.interrupted: float | None = None
        child = [sys.executable, "-B", "-E", "-S", "-m", "tests.run.child"]
        command = [*child, str(self.usage), str(job.nice), *job.command]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=make_environment(os.environ, job.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._shown = self.log.open("rb")
        self._rest = b""

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return time.monotonic() - self.began

    def read_lines(self, *, to_end: bool = False) -> list[str]:
        """The lines that are complete since the last call; with ``to_end`` also what is left."""
        *lines, self._rest = (self._rest + self._shown.read()).split(b"\n")
        if to_end and self._rest:
            lines.append(self._rest)
            self._rest = b""
        return [line.decode(errors="replace").rstrip("\r") for line in lines]

    def stop(self) -> None:
        """Have it end: first as Ctrl-C does, later by force. To be called until it has ended."""
        now = time.monotonic()
        if self.interrupted is None:
            self.interrupted = now
            self._send(signal.SIGINT)
        elif now - self.interrupted > KILL_TIMEOUT:
            self._send(signal.SIGKILL)
        elif now - self.interrupted > TERM_TIMEOUT:
            self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._send(signal.SIGKILL)

    def close(self) -> float | None:
        """Let go of its log; the seconds of processor time that it used, when it has reported them."""
        self._shown.close()
        try:
            usage: dict[str, float] = json.loads(self.usage.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        self.usage.unlink()
        return usage["processor_seconds"]

    def _send(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)


def make_environment(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a job: this one's, and what Python would keep back is written at once."""
    kept = {name: value for name, value in own.items() if name not in HIDDEN}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}
