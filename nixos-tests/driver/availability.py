"""What is down at a time, looked at again and again while a test does something to it."""

import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Samples:
    """The machines that were down at each sample, by name."""

    down: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def largest_outage(self) -> tuple[str, ...]:
        """Those of the sample with most of them."""
        return max(self.down, key=len, default=())

    def describe(self) -> str:
        """One line of figures."""
        found = sum(map(bool, self.down))
        largest = len(self.largest_outage())
        return f"{found} of {len(self.down)} samples found one down, at most {largest} at a time"


@contextmanager
def sampling(checks: Mapping[str, Callable[[], None]], interval: float) -> Generator[Samples]:
    """Sample while the context is open: the check of a machine that is down raises an AssertionError.

    ``interval`` are the seconds between the beginnings of two checks, each of which calls all at once.
    """
    samples, is_over = Samples(), threading.Event()

    def find(name: str) -> str:
        try:
            checks[name]()
        except AssertionError:
            return name
        return ""

    def sample() -> None:
        with ThreadPoolExecutor(len(checks)) as pool:
            while not is_over.is_set():
                began = time.monotonic()
                found = tuple(filter(None, pool.map(find, checks)))
                if not is_over.is_set():
                    samples.down.append(found)
                is_over.wait(max(0.0, interval - (time.monotonic() - began)))

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(sample)
        try:
            yield samples
        finally:
            is_over.set()
            task.result()
