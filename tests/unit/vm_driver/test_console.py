"""The console: lines from bytes, waiting for them, and what must never be among them."""

import threading

import pytest
from driver.console import Console
from driver.failure import StalledMachineError, VmTestError
from driver.rules import find_broken_rule, is_stall


def test_lines_are_put_together_from_pieces_and_terminals_escapes_are_dropped() -> None:
    shown: list[str] = []
    console = Console(shown.append)
    for piece in (b"\x1b[2J\x1b[1;1Hfir", b"st\r\nsec", b"ond\x00\n", b"rest"):
        console.feed(piece)
    assert shown == ["first", "second"]
    assert console.text() == "first\nsecond\nrest"


def test_waits_for_what_comes_later() -> None:
    console = Console()
    threading.Timer(0.01, lambda: console.feed(b"the API listens at 10.0.2.15\n")).start()
    assert console.wait_for(r"listens at (\S+)", 30).group(1) == "10.0.2.15"


def test_finds_what_is_there_already_and_prompts_without_an_end() -> None:
    console = Console()
    console.feed(b"one\nlogin: ")
    assert console.wait_for("one", 0)
    assert console.wait_for("login: $", 0)


def test_a_restart_hides_output_of_before() -> None:
    console = Console()
    console.feed(b"ready\n")
    console.restart()
    with pytest.raises(VmTestError, match="not within 0 s: the console shows /ready/"):
        console.wait_for("ready", 0)
    console.feed(b"ready\n")
    assert console.wait_for("ready", 0)
    assert console.tail() == "ready\nready"


def test_a_mark_hides_output_of_before_and_nothing_that_came_since() -> None:
    time = 1.0
    console = Console(now=lambda: time)
    console.feed(b"before\n")
    time = 3.0
    console.feed(b"since\n")
    console.mark(2.0)
    assert [line.text for line in console.lines()] == ["since"]
    console.mark(1.0)
    with pytest.raises(VmTestError, match="not within 0 s: the console shows /before/"):
        console.wait_for("before", 0)


def test_a_machine_that_is_off_has_no_more_output() -> None:
    console = Console()
    console.close()
    with pytest.raises(VmTestError, match="went off before"):
        console.wait_for("ready", 30)


def test_a_traceback_ends_any_wait() -> None:
    console = Console()
    console.feed(b"[talos] Traceback (most recent call last):\n")
    with pytest.raises(VmTestError, match="a traceback: \\[talos\\] Traceback"):
        console.wait_for("ready", 30)
    with pytest.raises(VmTestError):
        console.check()


def test_a_panic_may_be_expected_for_a_while() -> None:
    console = Console()
    with console.expect("Kernel panic - not syncing: the system image"):
        console.feed(b"Kernel panic - not syncing: the system image is damaged\n")
    console.check()
    console.feed(b"Kernel panic - not syncing: the system image is damaged\n")
    with pytest.raises(VmTestError, match="a kernel panic"):
        console.check()


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("BUG: kernel NULL pointer dereference", "a bug of the kernel"),
        ("DEBUG: fine", ""),
        ("WARNING: CPU: 1 PID: 1 at kernel/fork.c:1 fork", "a kernel warning"),
        ("oom_reaper: x", ""),
        ("Out of memory: Killed process 5 (python3)", "memory ran out"),
        ("phase config (3/3): 1 task(s)", ""),
    ],
)
def test_rules(line: str, rule: str) -> None:
    assert find_broken_rule(line) == rule


LOST_TIMER = "rcu: rcu_sched kthread timer wakeup didn't happen for 5254 jiffies! g-1195 f0x0"
STALLS = (
    LOST_TIMER,
    "rcu: \tPossible timer handling issue on cpu=1 timer-softirq=21",
    "rcu: INFO: rcu_sched detected stalls on CPUs/tasks:",
    "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-... } 21 jiffies s: 33 root: 0x2/.",
    "rcu: rcu_sched kthread starved for 5254 jiffies! g-1195 f0x0",
    "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [swapper/0:1]",
    "clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable",
)


@pytest.mark.parametrize("line", STALLS)
def test_the_kernel_s_reports_of_a_stall_are_recognized(line: str) -> None:
    assert is_stall(f"[   23.1] {line}")


@pytest.mark.parametrize(
    "line", ["rcu: Hierarchical RCU implementation.", "clocksource: Switched to clocksource tsc-early"]
)
def test_what_a_kernel_writes_at_every_start_is_no_stall(line: str) -> None:
    assert not is_stall(line)


def test_a_lost_timer_of_an_emulated_processor_ends_a_wait_at_once() -> None:
    console = Console(is_emulated=True)
    console.feed(f"[   23.1] {LOST_TIMER}\n".encode())
    with pytest.raises(StalledMachineError, match=r"has lost a timer: .* timer wakeup didn't happen"):
        console.wait_for("the API listens", 30)
    console.restart()
    console.check()
    assert len(console.stalls) == 1


def test_another_stall_is_kept_and_the_machine_may_recover() -> None:
    console = Console(is_emulated=True)
    console.feed(b"rcu: INFO: rcu_sched detected stalls on CPUs/tasks:\nthe API listens\n")
    assert console.wait_for("the API listens", 30)
    assert len(console.stalls) == 1


def test_a_stall_of_a_real_processor_is_no_excuse() -> None:
    console = Console()
    console.feed(f"{LOST_TIMER}\n".encode())
    console.check()
    assert not console.stalls
