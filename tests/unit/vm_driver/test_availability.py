"""Looks at several machines at once, while something is done to them."""

import threading

from driver.availability import Samples, sampling
from driver.failure import ConditionNotMetError
from tests.harness.limits import REAL_TIMEOUT


def test_who_is_down_at_a_time_is_found() -> None:
    down, seen = {"one"}, threading.Semaphore(0)

    def check(name: str) -> None:
        seen.release()
        if name in down:
            raise ConditionNotMetError(f"{name} does not answer")

    with sampling({name: lambda name=name: check(name) for name in ("one", "two")}, 0.001) as samples:
        for _ in range(4):
            assert seen.acquire(timeout=REAL_TIMEOUT)
        assert samples.largest_outage() == ("one",)
        down.add("two")
        while len(samples.largest_outage()) < 2:
            assert seen.acquire(timeout=REAL_TIMEOUT)
    assert samples.largest_outage() == ("one", "two")


def test_none_was_down() -> None:
    samples = Samples([(), ()])
    assert samples.largest_outage() == ()
    assert samples.describe() == "0 of 2 samples found one down, at most 0 at a time"
