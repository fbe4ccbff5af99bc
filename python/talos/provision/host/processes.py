"""Processes that are recognized for certain: a pid alone may have been given to another one since."""

import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A pid and when its process started, in clock ticks since boot (/proc/PID/stat, field 22)."""

    pid: int
    started: int

    def is_alive(self) -> bool:
        """Whether this very process is still there; one that only waits to be reaped isn't."""
        return _stat(self.pid) == self.started

    def send(self, number: signal.Signals) -> bool:
        """Signal this very process; false when it has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for its end; false when it is still there after that time."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive():
                return True
            return bool(select.select([descriptor], [], [], seconds)[0])
        finally:
            os.close(descriptor)

    def to_data(self) -> dict[str, int]:
        """As it is recorded."""
        return {"pid": self.pid, "started": self.started}


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now."""
    started = _stat(pid)
    return None if started is None else ProcessId(pid, started)


def from_data(data: Any) -> ProcessId | None:
    """A recorded process; none when the record is empty or damaged."""
    try:
        return ProcessId(int(data["pid"]), int(data["started"]))
    except (KeyError, TypeError, ValueError):
        return None


def wait_until_empty(pids: set[int], seconds: float) -> set[int]:
    """Wait until none of these processes is there; the ones that still are."""
    end = time.monotonic() + seconds
    left = set(pids)
    for pid in pids:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            finally:
                os.close(descriptor)
        if _stat(pid) is None:
            left.discard(pid)
    return left


def _stat(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in parentheses and may itself contain any character.
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])
