"""The page of a test run in a browser."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.run.job import Counts, Job, Outcome, State
from tests.run.page import write_page

from .browser import PHONE, Browser
from .checks import find_faint, find_too_wide, take_picture

FAILED = Outcome(
    job=Job(name="node", command=()),
    state=State.FAILED,
    reason="exit code 1",
    seconds=290,
    processor_seconds=99,
    started=361,
    counts=Counts(passed=40, failed=2, skipped=1),
    durations=((9.5, f"tests/node/test_long_names.py::test_{'a_name_' * 20}"),),
    tail=("    def test_it():", f"E   assert 1 == {'2' * 300}"),
)
OUTCOMES = [
    FAILED,
    replace(FAILED, job=Job(name="kernel", command=()), state=State.PASSED, seconds=1400, tail=()),
    Outcome(job=Job(name="cluster", command=()), state=State.NOT_RUN, reason="needs node"),
    Outcome(job=Job(name="unit", command=()), state=State.UNCHANGED, reason="in the store"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_legible_also_on_a_phone(browser: Browser, tmp_path: Path, scheme: str) -> None:
    write_page(OUTCOMES, 1800, ["locks: those of commit abc"], tmp_path / "report.html")
    browser.prefer("dark" if scheme == "dark" else "light")
    browser.open((tmp_path / "report.html").as_uri())
    assert browser.run("document.querySelector('h2').innerText") == "✕ node failed: exit code 1"
    assert find_faint(browser) == []
    take_picture(browser, f"report-{scheme}")
    browser.resize(PHONE)
    assert find_too_wide(browser) == []
    take_picture(browser, f"report-{scheme}-phone")
