"""A program whose output a test waits for."""

import os
import subprocess
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from driver.console import Console
from driver.failure import VmTestError
from driver.process import end_process, start_process
from tests.netboot.segment import Segment, family

CHUNK = 1 << 16


class Watched:
    """A running program. Its output is on its console, and printed for pytest to show after a failure."""

    def __init__(self, name: str, argv: Sequence[str], segment: Segment, folder: Path) -> None:
        """Start it in a network; it dies with us, and with it what it has started."""
        self.name, self._log = name, folder / f"{name}.log"
        self.console = Console(lambda line: print(f"{name} | {line}"))  # noqa: T201
        with segment.inside(), family():
            self.process = start_process(argv, log=self._log, stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while data := os.read(self.process.stdout.fileno(), CHUNK):
            self.console.feed(data)
        self.console.close()

    def wait_for(self, pattern: str, seconds: float) -> str:
        """Wait for a line; the first group, or all that matched."""
        try:
            match = self.console.wait_for(pattern, seconds)
        except VmTestError as error:
            errors = self._log.read_text(encoding="utf-8", errors="replace")
            raise AssertionError(f"{self.name}: {error}\n{errors}") from error
        return match[1] if match.re.groups else match[0]

    def end(self) -> None:
        """End it, by SIGTERM first."""
        end_process(self.process)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def watch(name: str, argv: Sequence[str], segment: Segment, folder: Path) -> Generator[Watched]:
    """Run a program; in the end its output must have nothing that a console must never show."""
    watched = Watched(name, argv, segment, folder)
    try:
        yield watched
        watched.console.check()
    finally:
        watched.end()
