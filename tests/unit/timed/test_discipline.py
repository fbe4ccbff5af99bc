"""What is done with the clock after a comparison."""

from datetime import UTC, datetime

import pytest

from talos.system.clock import Leap
from talos.testing.clock import MemoryClock
from talos.timed.discipline import BURST, SPIKES, Discipline, is_leap_day
from talos.timed.ntp.select import Estimate

NOW = 1_800_000_000.0


def compare(clock: MemoryClock, noise: float = 0.0, leap: Leap = Leap.NONE) -> Estimate:
    return Estimate(offset=clock.lag + noise, error=0.01, leap=leap, servers=("a",))


@pytest.mark.parametrize("lag", [NOW, -315_360_000.0, 0.05])
async def test_a_booting_machine_is_set_at_once(lag: float) -> None:
    clock = MemoryClock(start=NOW, lag=lag)
    outcome = Discipline(clock, is_synced=False).follow(compare(clock))
    assert (clock.steps, clock.lag, clock.synced) == ([lag], 0.0, True)
    assert outcome.step == lag


async def test_a_synchronized_clock_is_slewed() -> None:
    clock = MemoryClock(start=NOW, lag=0.1)
    outcome = Discipline(clock, is_synced=True).follow(compare(clock))
    assert (clock.steps, clock.slews, outcome.step) == ([], [0.1], 0.0)


@pytest.mark.parametrize("lag", [1.0, -1.0, 100_000_000.0])
async def test_a_synchronized_clock_is_set_only_when_the_difference_lasts(lag: float) -> None:
    clock = MemoryClock(start=NOW, lag=lag)
    discipline = Discipline(clock, is_synced=True)
    for count in range(1, SPIKES):
        outcome = discipline.follow(compare(clock))
        assert (outcome.spikes, outcome.step, clock.slews) == (count, 0.0, [])
        # A server that is off by years is watched for minutes, one that is off by seconds for seconds.
        assert outcome.pause == (2.0 if abs(lag) < 1000 else 32.0)
    assert discipline.follow(compare(clock)).step == lag


async def test_a_single_spike_changes_nothing() -> None:
    clock = MemoryClock(start=NOW)
    discipline = Discipline(clock, is_synced=True)
    assert discipline.follow(compare(clock, noise=5.0)).spikes == 1
    assert discipline.follow(compare(clock)).spikes == 0
    assert clock.steps == []


async def test_the_interval_grows_while_the_clock_is_right_and_shrinks_when_it_is_not() -> None:
    clock = MemoryClock(start=NOW)
    discipline = Discipline(clock, is_synced=False)
    pauses = [discipline.follow(compare(clock)).pause for _ in range(60)]
    assert pauses[: BURST - 1] == [2.0] * (BURST - 1)
    assert pauses[BURST - 1] == 32.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1024.0
    assert discipline.follow(compare(clock, noise=0.05)).pause == 512.0


async def test_a_leap_second_is_armed_on_the_last_day_of_a_month_only() -> None:
    eve = datetime(2026, 12, 31, 12, tzinfo=UTC).timestamp()
    for start, leap in ((eve, Leap.INSERT), (eve - 86_400, Leap.NONE), (eve + 86_400, Leap.NONE)):
        clock = MemoryClock(start=start)
        Discipline(clock, is_synced=False).follow(compare(clock, leap=Leap.INSERT))
        assert clock.leap is leap
    assert is_leap_day(eve)
