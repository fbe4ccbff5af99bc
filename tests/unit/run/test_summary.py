"""The end of a run."""

import json
from pathlib import Path

from tests.run.job import Counts, Job, Outcome, State
from tests.run.summary import format_summary, has_failed, write_report


def job(name: str) -> Job:
    return Job(name=name, command=())


OUTCOMES = [
    Outcome(job=job("fetch"), state=State.PASSED, seconds=61),
    Outcome(
        job=job("node"),
        state=State.FAILED,
        reason="exit code 1",
        seconds=90,
        started=61,
        counts=Counts(passed=40, failed=2, skipped=1),
        durations=((9.5, "tests/node/test_a.py::test_b"), (1.0, "tests/node/test_a.py::test_c")),
        tail=("E  assert 1 == 2",),
    ),
    Outcome(job=job("dependent"), state=State.NOT_RUN, reason="needs node"),
    Outcome(
        job=job("unit"),
        state=State.UNCHANGED,
        reason="in the store",
        counts=Counts(passed=2800),
        durations=((99.0, "tests/unit/test_long.py::test_not_run_now"),),
    ),
]


def test_summary_ends_with_all_tests_in_the_plain_form() -> None:
    lines = format_summary(OUTCOMES, 151, 240, "build/test", ["locks: those of commit abc"]).splitlines()
    assert lines[-2:] == ["locks: those of commit abc", "2840 passed, 2 failed"]
    assert lines[-3].startswith("2:31 minutes, 0:00 of processor time in jobs, 4:00 of the whole machine; ")


def test_summary_has_the_failures_with_their_last_lines() -> None:
    text = format_summary(OUTCOMES, 151, 240, "build/test", [])
    assert (
        "\n=== node failed: exit code 1; build/test/node.log ends with\nE  assert 1 == 2\n"
        "\n=== dependent was not run: needs node\n" in text
    )


def test_summary_has_a_row_for_each_job() -> None:
    lines = format_summary(OUTCOMES, 151, 240, "build/test", []).splitlines()
    rows = [
        line.split() for line in lines if line.split()[:1] in (["fetch"], ["node"], ["dependent"], ["unit"])
    ]
    assert [row[0] for row in rows] == ["fetch", "dependent", "node", "unit"]
    assert rows[2] == ["node", "FAILED", "1:01", "1:30", "40", "2", "1"]
    assert rows[3] == ["unit", "unchanged", "2800", "in", "the", "store"]


def test_summary_has_the_longest_tests_of_this_run() -> None:
    text = format_summary(OUTCOMES, 151, 240, "build/test", [])
    assert "     9.5  tests/node/test_a.py::test_b\n     1.0  tests/node/test_a.py::test_c\n" in text
    assert "test_not_run_now" not in text


def test_what_was_not_run_is_no_success() -> None:
    assert has_failed([OUTCOMES[2]])
    assert not has_failed([OUTCOMES[0], OUTCOMES[3]])


def test_report_is_json(tmp_path: Path) -> None:
    write_report(OUTCOMES, 151, 240, tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["passed"], report["failed"], len(report["jobs"])) == (2840, 2, 4)
    assert report["machine_processor_seconds"] == 240
    assert report["jobs"][1]["longest"][0] == {"seconds": 9.5, "test": "tests/node/test_a.py::test_b"}
