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


def broken_rule(line: str) -> str:
    """Return what a line must not contain, or an empty text."""
    return next((name for name, pattern in RULES.items() if pattern.search(line)), "")
