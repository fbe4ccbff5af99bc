"""Waiting for what will be true; the last try reports what was there instead."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from driver.clock import CLOCK
from driver.failure import VmTestError

POLL_INTERVAL, MAX_POLL_INTERVAL = 0.5, 4.0
"""Seconds between two tries: as long as the try took, within these bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutScale:
    """This machine's timeouts: tests name those of emulated processors, a probe measured ``factor``."""

    factor: float = 1.0
    now: Callable[[], float] = CLOCK.now
    pause: Callable[[float], None] = time.sleep

    def seconds(self, wanted: float) -> float:
        """Seconds to wait on this machine for what takes ``wanted`` on emulated processors."""
        return wanted * self.factor


def retry[T](
    what: str,
    attempt: Callable[[], T],
    *,
    timeout_scale: TimeoutScale,
    seconds: float,
    diagnose: Callable[[], str] = str,
    pause: float = POLL_INTERVAL,
) -> T:
    """Repeat until the attempt raises no AssertionError; any other error ends it at once.

    After ``seconds`` there is one last try, and its reason is in the failure together with what
    ``diagnose`` returns. At least half of the time passes between tries: each call keeps an emulated
    processor from what it is waited for.
    """
    limit = timeout_scale.seconds(seconds)
    end = timeout_scale.now() + limit
    tries = 0
    while True:
        began = timeout_scale.now()
        is_last = began >= end
        tries += 1
        try:
            return attempt()
        except VmTestError:
            raise
        except AssertionError as error:
            if is_last:
                diagnosis = diagnose()
                text = f"not within {limit:.0f} s ({tries} tries): {what}\n  the last time: {error}"
                raise VmTestError(f"{text}\n{diagnosis}" if diagnosis else text) from error
        took = min(timeout_scale.now() - began, MAX_POLL_INTERVAL)
        timeout_scale.pause(min(max(pause, took), max(0.01, end - timeout_scale.now())))
