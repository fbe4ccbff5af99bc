"""What is done with the clock after each comparison, and when the next one is due."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from talos.system.clock import Clock, Leap
from talos.timed.ntp.select import Estimate

STEP_THRESHOLD = 0.128
"""Seconds: the clock is set, not slewed, when it is off by more (STEPT of RFC 5905)."""
FIRST_STEP_THRESHOLD = 0.001
"""The same while nothing depends on a steady clock yet."""
EPOCH_THRESHOLD = 900.0
"""Seconds: a larger step begins a new epoch, in which what was derived from the clock is made anew."""
PANIC_THRESHOLD = 1000.0
"""Seconds (PANICT of RFC 5905): a synchronized clock is not off by so much without reason."""
SPIKES = 8
"""Comparisons in a row that have to show a large offset before a synchronized clock is set."""
BURST, BURST_INTERVAL = 4, 2.0
"""Comparisons at the start, and the seconds between them."""
MIN_POLL, MAX_POLL = 5, 10
"""log2 of the seconds between comparisons: 32 s to 17 minutes."""
ACCURATE = 0.005
"""Seconds: the interval grows while offsets are below, and shrinks when they are not."""
_STEADY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``step`` is by how many seconds the clock was set, 0 when it was not."""

    pause: float
    """Seconds until the next comparison."""
    step: float = 0.0
    spikes: int = 0
    """Large offsets in a row, which are not followed yet."""


class Discipline:
    """Steps or slews the clock. One object lives as long as the clock is taken for synchronized."""

    def __init__(self, clock: Clock, *, is_synced: bool) -> None:
        self._clock = clock
        self._is_synced = is_synced
        self._poll = MIN_POLL
        self._burst = BURST
        self._steady = 0
        self._spikes = 0

    def follow(self, estimate: Estimate) -> Outcome:
        """Act on a comparison. OSError when the clock can't be changed."""
        size = abs(estimate.offset)
        if self._is_synced and size > STEP_THRESHOLD:
            self._spikes += 1
            self._poll = MIN_POLL
            if self._spikes < SPIKES:
                pause = BURST_INTERVAL if size < PANIC_THRESHOLD else 2.0**MIN_POLL
                return Outcome(pause=pause, spikes=self._spikes)
        self._spikes = 0
        step = (
            estimate.offset if size > (STEP_THRESHOLD if self._is_synced else FIRST_STEP_THRESHOLD) else 0.0
        )
        if step:
            self._clock.step(step)
        self._is_synced = True
        self._clock.slew(
            0.0 if step else estimate.offset,
            constant=self._poll - 1,
            error=estimate.error,
            leap=estimate.leap if is_leap_day(self._clock.now()) else Leap.NONE,
        )
        return Outcome(pause=self._next_pause(size), step=step)

    def _next_pause(self, size: float) -> float:
        if self._burst > 1:
            self._burst -= 1
            return BURST_INTERVAL
        self._steady = self._steady + 1 if size < ACCURATE else 0
        if self._steady >= _STEADY:
            self._steady, self._poll = 0, min(self._poll + 1, MAX_POLL)
        elif size >= ACCURATE:
            self._poll = max(self._poll - 1, MIN_POLL)
        return 2.0**self._poll


def is_leap_day(now: float) -> bool:
    """Whether a leap second can be at the end of this day: servers announce it up to a month before.

    The kernel takes an announcement for the end of the current day.
    """
    today = datetime.fromtimestamp(now, UTC)
    return (today + timedelta(days=1)).day == 1
