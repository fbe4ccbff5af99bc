"""The page of a run."""

import re
from dataclasses import replace
from pathlib import Path

from tests.run.page import write_page
from tests.unit.run.test_summary import OUTCOMES


def make_page(tmp_path: Path, *changed: str) -> str:
    """The page of a run in which the job `node` ended with these lines."""
    outcomes = [replace(one, tail=changed) if one.job.name == "node" else one for one in OUTCOMES]
    write_page(outcomes, 151, ["locks: those of commit abc"], tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_what_a_log_ends_with_is_text(tmp_path: Path) -> None:
    page = make_page(tmp_path, "<script>alert(1)</script>", "E  assert a < b & c")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\nE  assert a &lt; b &amp; c</pre>" in page
    assert "<script" not in page


def test_jobs_are_in_the_order_of_what_they_took_with_their_logs(tmp_path: Path) -> None:
    page = make_page(tmp_path)
    assert re.findall(r'<tr class="([a-z-]+)"><td>(?:<a href="([a-z.]+)">)?', page) == [
        ("failed", "node.log"),
        ("passed", "fetch.log"),
        ("not-run", ""),
        ("unchanged", ""),
    ]
    assert 'style="margin-left: 40.4%; width: 59.6%"' in page


def test_tests_and_counts_of_all(tmp_path: Path) -> None:
    page = make_page(tmp_path)
    assert "<title>2840 passed, 2 failed</title>" in page
    assert "<code>tests/node/test_a.py::test_b</code>" in page
    assert "locks: those of commit abc" in page
    assert "needs node" in page


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    assert not re.search(r"https?://|url\(|<script|<img", make_page(tmp_path))
