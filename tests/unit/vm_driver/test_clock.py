"""The clock of the programs under test: what they wait for a processor counts in part."""

import os

from driver.clock import Clock, read_delays


class Host:
    """A host on which a test sets time and delays."""

    def __init__(self) -> None:
        self.time = 100.0
        self.is_running = True
        self.delays: dict[str, float] = {}
        self.clock = Clock(lambda: self.time, lambda _: dict(self.delays))

    def pass_seconds(self, seconds: float, **delays: float) -> float:
        """The clock after so many seconds, in which threads have waited."""
        self.time += seconds
        for thread, delay in delays.items():
            self.delays[thread] = self.delays.get(thread, 0.0) + delay
        return self.clock.now() - 100.0


def test_it_is_the_walls_clock_on_a_quiet_host() -> None:
    host = Host()
    assert host.pass_seconds(5) == 5
    host.clock.watch(7, lambda: host.is_running)
    assert host.pass_seconds(5, cpu=0.0) == 10


def test_waiting_for_a_processor_does_not_count() -> None:
    host = Host()
    host.delays = {"cpu0": 50.0, "cpu1": 0.0}
    host.clock.watch(7, lambda: host.is_running)
    assert host.pass_seconds(1) == 1, "what it has waited before is not ours"
    assert host.pass_seconds(10, cpu0=4.0, cpu1=6.0) == 5
    assert host.pass_seconds(10, cpu0=10.0) == 7.5, "at least a quarter of the time passes"


def test_a_program_that_ended_counts_no_more() -> None:
    host = Host()
    host.clock.watch(7, lambda: host.is_running)
    host.pass_seconds(1, cpu=0.0)
    host.is_running = False
    assert host.pass_seconds(10, cpu=5.0) == 11


def test_delays_of_this_process() -> None:
    assert all(delay >= 0 for delay in read_delays(os.getpid()).values())
    assert read_delays(2**31 - 1) == {}
