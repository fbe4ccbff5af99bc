"""What is down at a time, looked at again and again while a test does something to it."""

import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Looks:
    """Who was down at each look, by name."""

    down: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def most(self) -> tuple[str, ...]:
        """Those of the look with most of them."""
        return max(self.down, key=len, default=())

    def describe(self) -> str:
        """One line of figures."""
        found = sum(map(bool, self.down))
        return f"{found} of {len(self.down)} looks found one down, at most {len(self.most())} at a time"


@contextmanager
def looking(checks: Mapping[str, Callable[[], None]], interval: float) -> Generator[Looks]:
    """Look for as long as the context is open: who is down has a check that raises an AssertionError.

    ``interval`` are the seconds between the beginnings of two looks, of which each asks all at once.
    """
    looks, is_over = Looks(), threading.Event()

    def find(name: str) -> str:
        try:
            checks[name]()
        except AssertionError:
            return name
        return ""

    def look() -> None:
        with ThreadPoolExecutor(len(checks)) as pool:
            while not is_over.is_set():
                began = time.monotonic()
                found = tuple(filter(None, pool.map(find, checks)))
                if not is_over.is_set():
                    looks.down.append(found)
                is_over.wait(max(0.0, interval - (time.monotonic() - began)))

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(look)
        try:
            yield looks
        finally:
            is_over.set()
            task.result()
