"""How often clients may do something: a token bucket each."""

import time
from collections import OrderedDict
from collections.abc import Callable

CLIENTS = 16_384
"""Clients that are remembered; the one that was silent for longest is forgotten first."""


class Rates:
    """``per_second`` times on average, ``burst`` times in quick succession. ``now`` is in seconds."""

    def __init__(self, per_second: float, burst: float, *, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By client: tokens, and when they were counted."""

    def take(self, client: str, tokens: float = 1.0) -> float:
        """Take tokens; the seconds to wait until they are there, 0 when they are."""
        now = self._now()
        left, counted = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - counted) * self._per_second) - tokens
        # A client that goes on although it is refused does not go ever deeper into debt.
        left = max(left, -self._burst)
        self._buckets[client] = (left, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return max(0.0, -left / self._per_second)
