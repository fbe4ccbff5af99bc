"""Shows the user how far a cluster is: live lines on a terminal, plain ones elsewhere."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, TextIO


class Progress(Protocol):
    """Where progress goes. A step begins and ends; within it, details may come."""

    def begin(self, text: str) -> None:
        """A step begins; the one before it has succeeded."""
        ...

    def detail(self, text: str) -> None:
        """Something worth a line happened within the step."""
        ...

    def end(self) -> None:
        """The last step has succeeded."""
        ...

    def fail(self) -> None:
        """The step at hand has failed."""
        ...


class NoProgress:
    """Drops everything."""

    def begin(self, text: str) -> None:
        """A step begins."""

    def detail(self, text: str) -> None:
        """Something happened."""

    def end(self) -> None:
        """Everything has succeeded."""

    def fail(self) -> None:
        """It failed."""


class Lines:
    """One line per step and detail, for logs and pipes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._last = ""

    def begin(self, text: str) -> None:
        """A step begins."""
        self._print(text)

    def detail(self, text: str) -> None:
        """Something happened. What waits reports the same at every look; once is enough."""
        if text != self._last:
            self._print(f"  {text}")
        self._last = text

    def end(self) -> None:
        """Everything has succeeded."""

    def fail(self) -> None:
        """It failed."""

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


class Live:
    """A spinner on the step at hand, a tick and its time on those that are done."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=out, highlight=False)
        self._status = self._console.status("")
        self._text = ""
        self._since = 0.0

    def begin(self, text: str) -> None:
        """A step begins."""
        self._finish("[green]✓[/green]")
        self._text, self._since = text, time.monotonic()
        self._status.update(f"{text} …")
        self._status.start()

    def detail(self, text: str) -> None:
        """Something happened."""
        self._status.update(f"{self._text} … [dim]{text}[/dim]")

    def end(self) -> None:
        """Everything has succeeded."""
        self._finish("[green]✓[/green]")
        self._status.stop()

    def fail(self) -> None:
        """It failed."""
        self._finish("[red]✗[/red]")
        self._status.stop()

    def _finish(self, mark: str) -> None:
        if self._text:
            self._console.print(f"{mark} {self._text} [dim]{time.monotonic() - self._since:.1f} s[/dim]")
        self._text = ""


@contextmanager
def show_progress(out: TextIO | None = None) -> Generator[Progress]:
    """Progress on a stream (standard error unless given), ended properly however the block ends."""
    stream = sys.stderr if out is None else out
    progress = Live(stream) if stream.isatty() else Lines(stream)
    try:
        yield progress
    except BaseException:
        progress.fail()
        raise
    progress.end()
