"""How many machines are down at a time, looked at again and again while a test does something to them."""

import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from driver.client import knock
from driver.failure import NotYet
from driver.machine import Machine

LOOK_TIMEOUT = 15.0
"""Seconds for an API to answer, on emulated processors that others need, too."""
LOOK_INTERVAL = 1.0
"""Seconds between two looks: an emulated processor has work with each."""


@dataclass(slots=True)
class Looks:
    """Which machines were down at each look, by name."""

    down: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def most(self) -> tuple[str, ...]:
        """Those of the look with most of them."""
        return max(self.down, key=len, default=())

    def describe(self) -> str:
        """One line of figures."""
        return f"{sum(map(bool, self.down))} of {len(self.down)} looks found a machine down"


@contextmanager
def looking(machines: Sequence[Machine], interval: float = LOOK_INTERVAL) -> Generator[Looks]:
    """Look for as long as the context is open: one is down whose API takes no connection."""
    looks, is_over = Looks(), threading.Event()

    def find(machine: Machine) -> str:
        try:
            knock(machine.client.port, machine.patience.seconds(LOOK_TIMEOUT))
        except NotYet:
            return machine.name
        return ""

    def look() -> None:
        with ThreadPoolExecutor(len(machines)) as pool:
            while not is_over.is_set():
                began = time.monotonic()
                found = tuple(filter(None, pool.map(find, machines)))
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
