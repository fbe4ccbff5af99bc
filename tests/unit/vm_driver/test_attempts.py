"""A test that is started anew: only after the kernel has reported a stall, once, and in a new world."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from driver.attempts import run_test
from driver.console import Console
from driver.failure import VmTestError
from driver.script import Script
from driver.world import World

STALL = "rcu: INFO: rcu_sched detected stalls on CPUs/tasks:"
LOST_TIMER = "rcu: rcu_sched kthread timer wakeup didn't happen for 5254 jiffies!"
SOURCE = Path("/nowhere")


@dataclass
class FakeWorld:
    """A world with one machine, which is a console."""

    lines: Sequence[str]
    shown: list[str] = field(default_factory=list[str])
    closed: bool = False
    started_anew: str = ""
    saved: Path | None = None

    def __post_init__(self) -> None:
        self.console = Console(is_emulated=True)
        self.console.feed("".join(f"{line}\n" for line in self.lines).encode())

    def values(self) -> list[Any]:
        machine = {"name": "node", "console": self.console, "diagnose": lambda: ""}
        return [SimpleNamespace(**machine, started_anew=self.started_anew)]

    def check(self) -> None:
        self.console.check()

    def show(self, line: str) -> None:
        self.shown.append(line)

    def close(self) -> None:
        self.closed = True


class Worlds:
    """Each attempt's world, with what its console shows."""

    def __init__(self, *consoles: Sequence[str]) -> None:
        self.consoles, self.made = consoles, list[FakeWorld]()

    def make(self, attempt: int) -> World:
        assert all(world.closed for world in self.made), "two worlds at a time"
        self.made.append(FakeWorld(self.consoles[attempt - 1]))
        return cast("World", self.made[-1])


def script(test: Callable[[FakeWorld], None]) -> Script:
    return Script(name="t", title="T", nodes={}, test=cast("Callable[[World], None]", test))


def fail_after_a_stall(world: FakeWorld) -> None:
    if world.console.stalls:
        raise VmTestError("it took too long")


def fail(_: FakeWorld) -> None:
    raise VmTestError("it is broken")


def test_a_failure_after_a_stall_is_repeated_in_a_new_world_and_reported() -> None:
    worlds = Worlds([STALL], [])
    outcome = run_test(script(fail_after_a_stall), worlds.make, SOURCE)
    assert outcome.passed
    assert outcome.report() == f"passed\nstarted anew after a stall: node: {STALL}\n"
    assert any(line.startswith("STARTED ANEW t: ") and STALL in line for line in worlds.made[0].shown)
    assert [world.closed for world in worlds.made] == [True, True]


def test_a_lost_timer_ends_a_test_that_would_have_passed() -> None:
    outcome = run_test(script(lambda _: None), Worlds([LOST_TIMER], []).make, SOURCE)
    assert (outcome.passed, len(outcome.stalls)) == (True, 1)


def test_it_is_repeated_once() -> None:
    worlds = Worlds([STALL], [STALL])
    outcome = run_test(script(fail_after_a_stall), worlds.make, SOURCE)
    assert (outcome.passed, len(worlds.made)) == (False, 2)


def test_a_failure_without_a_stall_is_not_repeated() -> None:
    worlds = Worlds([], [])
    outcome = run_test(script(fail), worlds.make, SOURCE)
    assert (outcome.passed, outcome.stalls, len(worlds.made)) == (False, (), 1)


def test_a_test_that_passes_after_a_stall_has_passed() -> None:
    worlds = Worlds([STALL], [])
    outcome = run_test(script(lambda _: None), worlds.make, SOURCE)
    assert outcome.report() == "passed\n"
    assert len(worlds.made) == 1


@pytest.mark.parametrize("error", [ValueError("a bug of the test"), AssertionError("it is not so")])
def test_any_error_of_the_test_is_its_failure(error: Exception) -> None:
    def raise_error(_: FakeWorld) -> None:
        raise error

    worlds = Worlds([])
    assert not run_test(script(raise_error), worlds.make, SOURCE).passed
    assert any("FAILED t" in line for line in worlds.made[0].shown)


def test_a_machine_that_was_started_anew_is_reported() -> None:
    def start_anew(world: FakeWorld) -> None:
        world.started_anew = "a lost timer"

    outcome = run_test(script(start_anew), Worlds([]).make, SOURCE)
    assert outcome.report() == "passed\nstarted anew after a stall: a lost timer\n"
