"""What a machine writes to its serial line: kept, shown, matched, and held to the rules."""

import re
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from driver.clock import CLOCK
from driver.failure import StalledMachineError, VmTestError
from driver.rules import LOST_TIMER, find_broken_rule, is_stall

ESCAPES = re.compile(r"\x1b\[[0-9;?=]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>c]|\r|\x00")
"""What terminals swallow: firmware and GRUB draw their menus with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, and when it was complete, by the test's monotonic clock."""

    at: float
    text: str


def _discard(_: str) -> None:
    pass


class Console:
    """A serial line. Bytes come from a thread that reads QEMU; tests look from theirs."""

    def __init__(
        self,
        show: Callable[[str], None] = _discard,
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = CLOCK.now,
        *,
        is_emulated: bool = False,
    ) -> None:
        """``show`` gets each complete line; ``clock`` is what limits are counted by.

        Of an emulated processor the kernel's reports of stalls are kept.
        """
        self._show, self._now, self._clock = show, now, clock
        self._lines: list[Line] = []
        self._rest = ""
        self._start = 0
        self._open = True
        self._broken: list[str] = []
        self._allowed: list[re.Pattern[str]] = []
        self._is_emulated = is_emulated
        self.stalls: list[str] = []
        """Lines with which the kernel reports that its emulated processor stood still."""
        self._lost_timer = ""
        self._changed = threading.Condition()

    def feed(self, data: bytes) -> None:
        """Take what came from the machine."""
        text = ESCAPES.sub("", self._rest + data.decode("utf-8", "replace"))
        *complete, rest = text.split("\n")
        with self._changed:
            for line in complete:
                self._lines.append(Line(at=self._now(), text=line))
                if (rule := find_broken_rule(line)) and not any(
                    known.search(line) for known in self._allowed
                ):
                    self._broken.append(f"{rule}: {line.strip()}")
                if self._is_emulated and is_stall(line):
                    self._note_stall(line.strip())
            self._rest = rest
            self._changed.notify_all()
        for line in complete:
            self._show(line)

    def _note_stall(self, line: str) -> None:
        self.stalls.append(line)
        if LOST_TIMER.search(line):
            self._lost_timer = line

    def restart(self) -> None:
        """The machine is switched on: what is waited for from now on comes after this."""
        with self._changed:
            self._start, self._rest, self._open = len(self._lines), "", True
            self._lost_timer = ""

    def close(self) -> None:
        """The machine is off."""
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def mark(self, at: float) -> None:
        """Ignore the lines before this time when waiting, not when looking for broken rules."""
        with self._changed:
            while self._start < len(self._lines) and self._lines[self._start].at < at:
                self._start += 1

    def lines(self) -> list[Line]:
        """Everything since the machine was switched on or :meth:`mark`; the incomplete last line too."""
        with self._changed:
            found = self._lines[self._start :]
            return [*found, Line(at=self._now(), text=self._rest)] if self._rest else found

    def text(self) -> str:
        """The same as one text."""
        return "\n".join(line.text for line in self.lines())

    def tail(self, count: int = 40) -> str:
        """The last lines, of earlier starts too."""
        with self._changed:
            return "\n".join([*(line.text for line in self._lines[-count:]), self._rest]).rstrip()

    @contextmanager
    def expect(self, pattern: str) -> Generator[None]:
        """Allow lines that a rule forbids, for as long as the context is open."""
        known = re.compile(pattern)
        self._allowed.append(known)
        try:
            yield
        finally:
            self._allowed.remove(known)

    def check(self) -> None:
        """VmTestError when a rule was broken at any time; StalledMachineError when a timer is lost."""
        if self._lost_timer:
            raise StalledMachineError(f"the emulated processor has lost a timer: {self._lost_timer}")
        if self._broken:
            raise VmTestError("the console shows " + "; ".join(self._broken))

    def wait_for(self, pattern: str, seconds: float, *, is_wanted_when_off: bool = False) -> re.Match[str]:
        """Wait for a line that matches; the first one is given back."""
        wanted = re.compile(pattern)
        end = self._clock() + seconds
        seen = self._start
        with self._changed:
            while True:
                seen = max(seen, self._start)
                for line in self._lines[seen:]:
                    if match := wanted.search(line.text):
                        return match
                seen = len(self._lines)
                if match := wanted.search(self._rest):
                    return match
                self.check()
                left = end - self._clock()
                if not self._open and not is_wanted_when_off:
                    raise VmTestError(f"the machine went off before its console showed /{pattern}/")
                if left <= 0:
                    raise VmTestError(f"not within {seconds:.0f} s: the console shows /{pattern}/")
                self._changed.wait(min(left, 1))
