"""A failing row needs a reason, and a reason needs a failing row."""

import json

from check_hardening import Row, check_rows, parse_rows

FAILS = Row(section="config", name="AIO", desired="is not set", result='FAIL: "y"')
PASSES = Row(section="sysctl", name="kernel.sysrq", desired="0", result="OK")


def test_the_checkers_rows() -> None:
    text = json.dumps(
        [
            {
                "option_name": "CONFIG_AIO",
                "type": "kconfig",
                "desired_val": "is not set",
                "check_result": 'FAIL: "y"',
            },
            {"option_name": "kernel.sysrq", "type": "sysctl", "desired_val": "0", "check_result": "OK"},
        ]
    )
    assert parse_rows(text) == [FAILS, PASSES]


def test_all_accepted() -> None:
    assert check_rows([FAILS, PASSES], {"config": {"AIO": "databases"}}) == []


def test_a_failing_row_without_a_reason() -> None:
    (line,) = check_rows([FAILS], {})
    assert line.startswith("[config] AIO: FAIL: \"y\", the checker wants 'is not set'")
    (line,) = check_rows([FAILS], {"config": {"AIO": " "}})
    assert "without a reason" in line


def test_the_section_counts() -> None:
    assert len(check_rows([FAILS], {"cmdline": {"AIO": "databases"}})) == 2


def test_a_reason_that_outlived_its_row() -> None:
    (line,) = check_rows([PASSES], {"sysctl": {"kernel.sysrq": "once"}})
    assert line == "[sysctl] kernel.sysrq no longer fails: take it out of kernel/accepted.toml"
