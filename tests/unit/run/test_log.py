"""What the logs of test programs show."""

import pytest
from tests.run.job import Counts
from tests.run.log import read_log

QUIET = """\
check-unit> ........ [100%]
check-unit> ============================= slowest 60 durations =============================
check-unit> 2.50s call     tests/unit/a/test_b.py::test_c[d e]
check-unit> 1.25s setup    tests/unit/a/test_b.py::test_c[d e]
check-unit> 0.40s call     tests/unit/a/test_b.py::test_short
check-unit> 2841 passed, 44 skipped, 3 deselected in 204.05s (0:03:24)
"""


def test_quiet_pytest_in_a_build() -> None:
    log = read_log(QUIET.splitlines(), is_test=True, has_passed=True)
    assert log.counts == Counts(passed=2841, skipped=44)
    assert log.durations == ((3.75, "tests/unit/a/test_b.py::test_c[d e]"),)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("\x1b[31m==== 1 failed, 2 passed in 0.31s ====\x1b[0m", Counts(passed=2, failed=1)),
        ("2 passed, 1 error in 0.31s", Counts(passed=2, failed=1)),
        ("1 failed, 3 errors in 0.31s", Counts(failed=4)),
        ("builder for '/nix/store/x.drv' failed with exit code 1", Counts(failed=1)),
    ],
)
def test_failures(line: str, counts: Counts) -> None:
    log = read_log(["before", line], is_test=True, has_passed=False)
    assert (log.counts, log.tail[0]) == (counts, "before")


def test_failure_outside_of_any_test_is_one() -> None:
    assert read_log(["3 passed in 1.00s"], is_test=True, has_passed=False).counts == Counts(
        passed=3, failed=1
    )


def test_check_without_tests_is_one_and_a_build_is_none() -> None:
    assert read_log(["All checks passed!"], is_test=True, has_passed=True).counts == Counts(passed=1)
    assert read_log(["built"], is_test=False, has_passed=True).counts == Counts()


def test_machines_tell_how_long_they_took() -> None:
    log = read_log(["vm-boot>   58.3  passed boot in 58 s"], is_test=True, has_passed=True)
    assert (log.counts, log.durations) == (Counts(passed=1), ((58, "vm-boot"),))


def test_machines_that_were_started_anew_are_named() -> None:
    stall = "STARTED ANEW boot: the emulated processor stood still: node: rcu: INFO: detected stalls"
    lines = [f"vm-boot>   93.1  {stall}", "vm-boot>  151.4  passed boot in 58 s"]
    assert read_log(lines, is_test=True, has_passed=True).restarts == (stall,)


def test_tests_of_several_runs_are_added() -> None:
    lines = ["5 passed in 1.00s", "7 passed, 1 skipped in 2.00s"]
    assert read_log(lines, is_test=True, has_passed=True).counts == Counts(passed=12, skipped=1)
