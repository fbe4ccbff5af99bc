"""Waiting: until it is so, or with a failure that has what was there instead."""

import pytest
from driver.failure import ConditionNotMetError, VmTestError
from driver.retry import TimeoutScale, retry


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def timeout_scale(self, factor: float = 1) -> TimeoutScale:
        return TimeoutScale(factor=factor, now=lambda: self.now, pause=self.pause)


def test_first_try_needs_no_time() -> None:
    clock = Clock()
    assert retry("x", lambda: "there", timeout_scale=clock.timeout_scale(), seconds=10) == "there"
    assert clock.now == 0


def test_repeats_until_it_is_there() -> None:
    clock, tries = Clock(), list[int]()

    def attempt() -> int:
        tries.append(1)
        if len(tries) < 4:
            raise ConditionNotMetError("no")
        return len(tries)

    assert retry("x", attempt, timeout_scale=clock.timeout_scale(), seconds=10, pause=1) == 4
    assert clock.now == 3


def test_tries_that_take_long_leave_as_much_time_to_the_machine() -> None:
    clock, tries = Clock(), list[float]()

    def attempt() -> None:
        tries.append(clock.now)
        clock.now += 2
        if len(tries) < 3:
            raise ConditionNotMetError("no")

    retry("x", attempt, timeout_scale=clock.timeout_scale(), seconds=60)
    assert tries == [0, 4, 8]


def test_last_try_reports_what_was_there_and_the_diagnosis() -> None:
    clock = Clock()

    def attempt() -> None:
        raise ConditionNotMetError(f"it is {clock.now:.0f} o'clock")

    with pytest.raises(VmTestError) as failed:
        retry(
            "it is noon",
            attempt,
            timeout_scale=clock.timeout_scale(),
            seconds=6,
            diagnose=lambda: "the clock runs",
        )
    assert "not within 6 s" in str(failed.value)
    assert "it is noon" in str(failed.value)
    assert "it is 6 o'clock" in str(failed.value)
    assert "the clock runs" in str(failed.value)


def test_times_scale_with_what_the_probe_found() -> None:
    clock = Clock()

    def attempt() -> None:
        raise ConditionNotMetError("no")

    with pytest.raises(VmTestError, match="not within 15 s"):
        retry("x", attempt, timeout_scale=clock.timeout_scale(1.5), seconds=10)
    assert clock.now == 15


def test_a_failure_ends_the_wait_at_once() -> None:
    clock = Clock()

    def attempt() -> None:
        raise VmTestError("the console shows a traceback")

    with pytest.raises(VmTestError, match="traceback"):
        retry("x", attempt, timeout_scale=clock.timeout_scale(), seconds=10)
    assert clock.now == 0


def test_other_errors_are_bugs_of_the_test() -> None:
    with pytest.raises(ZeroDivisionError):
        retry("x", lambda: 1 / 0, timeout_scale=Clock().timeout_scale(), seconds=10)
