"""What a job's log shows: how many tests ended in which way, the longest of them, and its last lines.

Nix keeps the log of a check that passed, so that the same is shown for one that is not repeated.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.run.job import Counts

TAIL_LINES = 40
MIN_SECONDS = 1.0
"""Seconds; shorter tests are not listed."""

# "check-unit> " before what a build writes.
_BUILDER = re.compile(r"^[\w.+-]+> ")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# "12 passed, 1 skipped in 3.20s", with bars of "=" around it unless pytest is quiet.
_PYTEST = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s")
_NUMBER = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
# A line such as "2.31s call     tests/node/test_rest.py::test_watch[links]".
_DURATION = re.compile(r"^(\d+\.\d+)s (?:call|setup|teardown) +(\S+::.*)$")
# What the driver of the tests on virtual machines writes last.
_MACHINES = re.compile(r"^(?: *[\d.]+  )?passed (\S+) in (\d+) s$")
# The same driver, of a machine or a test whose emulated processor stood still.
_STARTED_ANEW = re.compile(r"STARTED ANEW.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What was found in one."""

    counts: Counts
    durations: tuple[tuple[float, str], ...]
    tail: tuple[str, ...]
    restarts: tuple[str, ...] = ()
    """What was started anew after the kernel had reported a stall, and the report."""


def clean(line: str) -> str:
    """A line without colours and without the name of the build that wrote it."""
    return _BUILDER.sub("", _ESCAPES.sub("", line))


def read_log(lines: Sequence[str], *, is_test: bool, has_passed: bool) -> Log:
    """What a job's lines show. A check without tests counts as one, and so does a failure outside of any."""
    text = [clean(line) for line in lines]
    found = Counter[str]()
    durations = defaultdict[str, float](float)
    for line in text:
        if match := _PYTEST.match(line):
            for number, word in _NUMBER.findall(match[1]):
                found["failed" if word.startswith("error") else word] += int(number)
        elif match := _DURATION.match(line):
            durations[match[2]] += float(match[1])
        elif match := _MACHINES.match(line):
            durations[f"vm-{match[1]}"] += int(match[2])
    counts = Counts(passed=found["passed"], failed=found["failed"], skipped=found["skipped"])
    if not has_passed and not counts.failed:
        counts += Counts(failed=1)
    elif has_passed and is_test and not found:
        counts = Counts(passed=1)
    longest = sorted(((seconds, name) for name, seconds in durations.items()), reverse=True)
    return Log(
        counts=counts,
        durations=tuple((seconds, name) for seconds, name in longest if seconds >= MIN_SECONDS),
        tail=tuple(line for line in text if line.strip())[-TAIL_LINES:],
        restarts=tuple(match[0] for line in text if (match := _STARTED_ANEW.search(line))),
    )
