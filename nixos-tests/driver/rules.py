"""What must never appear on a console, unless a test expects it."""

import re

RULES: dict[str, re.Pattern[str]] = {
    "a traceback": re.compile(r"Traceback \(most recent call last\)"),
    "a kernel panic": re.compile(r"Kernel panic"),
    "a bug of the kernel": re.compile(
        r"\bBUG: (?!soft lockup)|kernel BUG at |general protection fault|Oops: "
    ),
    "a kernel warning": re.compile(r"WARNING: CPU: \d+ PID: \d+ at "),
    "a failed sequence": re.compile(r"sequence \w+: did not end well"),
    "memory ran out": re.compile(r"Out of memory: Killed|invoked oom-killer"),
}
"""By the name that a failure gives it. An emulated processor stands still when its host is busy: a soft
lockup is no bug there."""


def find_broken_rule(line: str) -> str:
    """Return what a line must not contain, or an empty text."""
    return next((name for name, pattern in RULES.items() if pattern.search(line)), "")


LOST_TIMER = re.compile(r"rcu: \w+ kthread timer wakeup didn't happen|Possible timer handling issue on cpu=")
"""A timer was set and has not ended: on an emulated processor its event is lost (kernel/rcu/tree_stall.h)."""
STALL = re.compile(
    r"rcu: INFO: \w+ (?:self-)?detected (?:expedited )?stall|rcu: \w+ kthread starved for"
    r"|watchdog: BUG: soft lockup|timekeeping watchdog on CPU\d+: Marking clocksource .* as unstable"
)
"""A processor, or its clock, stood still for many seconds. A machine may recover from that."""


def is_stall(line: str) -> bool:
    """Whether the kernel reports that its processor does not run as it should."""
    return bool(LOST_TIMER.search(line) or STALL.search(line))
