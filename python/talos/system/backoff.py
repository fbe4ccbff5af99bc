"""Delays between the tries of what fails: doubled each time, up to a limit."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds without an end; each iteration begins anew with the ``initial`` one."""

    initial: float
    limit: float = inf

    def __iter__(self) -> Iterator[float]:
        delay = self.initial
        while True:
            yield delay
            delay = min(2 * delay, self.limit)
