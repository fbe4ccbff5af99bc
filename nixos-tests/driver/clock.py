"""Time as the programs under test have it: what they wait for the host's processors counts only in part.

A machine on emulated processors needs both cores of the host. While other programs use them, too, it takes
several times as long for the same; a limit that is right on a quiet host would call it dead.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

MIN_RATE = 0.25
"""How fast the clock runs at least, compared to the wall's: so every wait ends."""
NANOSECONDS = 1e-9


def read_delays(pid: int) -> dict[str, float]:
    """Seconds that each thread of a process has waited for a processor (``/proc/PID/task/TID/schedstat``)."""
    delays: dict[str, float] = {}
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            delays[task.name] = int((task / "schedstat").read_text(encoding="ascii").split()[1]) * NANOSECONDS
    except (OSError, ValueError, IndexError):
        pass  # it has ended, or the kernel does not count
    return delays


class Clock:
    """Seconds that pass while the watched programs could run; a wall's clock while there are none."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        read: Callable[[int], dict[str, float]] = read_delays,
    ) -> None:
        self._now, self._read = now, read
        self._watched: dict[int, Callable[[], bool]] = {}
        self._known: dict[tuple[int, str], float] = {}
        self._last = now()
        self._time = self._last
        self._lock = threading.Lock()

    def watch(self, pid: int, is_running: Callable[[], bool]) -> None:
        """Count a program in until it ends."""
        with self._lock:
            self._watched[pid] = is_running

    def now(self) -> float:
        """The time. It is exact when it is read every few seconds."""
        with self._lock:
            wall = self._now()
            passed, self._last = wall - self._last, wall
            self._time += max(passed * MIN_RATE, passed - self._count_delay())
            return self._time

    def _count_delay(self) -> float:
        """The longest that any thread has waited since the last look."""
        longest = 0.0
        for pid, is_running in list(self._watched.items()):
            if not is_running():
                del self._watched[pid]
                continue
            for thread, total in self._read(pid).items():
                longest = max(longest, total - self._known.get((pid, thread), total))
                self._known[pid, thread] = total
        return longest


CLOCK = Clock()
"""The one that all programs of this test are counted in."""
