"""The page of Kubernetes' specs."""

import re
from pathlib import Path

from tests.harness.e2e import FAILED, PASSED, SKIPPED, Spec
from tests.harness.e2e_page import write_page

SPECS = [
    Spec(name="[sig-node] Pods <should> start", state=FAILED, seconds=3, message="expected <int>: 1 & more"),
    Spec(name="[sig-node] Probes", state=PASSED, seconds=40, message=""),
    Spec(name="[sig-node] Windows", state=SKIPPED, seconds=0, message="only for windows"),
    Spec(name="[sig-node] Shell", state=FAILED, seconds=10, message="another text"),
]


def make_page(tmp_path: Path) -> str:
    write_page(SPECS, {"[sig-node] Shell"}, "parallel/log", tmp_path / "parallel.html")
    return (tmp_path / "parallel.html").read_text(encoding="utf-8")


def test_failures_are_first_and_their_messages_are_text(tmp_path: Path) -> None:
    page = make_page(tmp_path)
    assert "<h1>1 passed, 2 failed, 1 skipped</h1>" in page
    assert "<title>1 passed, 2 failed, 1 skipped</title>" in page
    assert "✕ [sig-node] Pods &lt;should&gt; start failed</h2>" in page
    assert "expected &lt;int&gt;: 1 &amp; more</pre>" in page
    assert "✕ [sig-node] Shell failed, as the documentation names it</h2>" in page
    assert page.index("another text") < page.index("<h2>Specs</h2>")
    assert '<a href="parallel/log">' in page


def test_specs_are_in_the_order_of_what_they_took(tmp_path: Path) -> None:
    page = make_page(tmp_path)
    assert re.findall(r'<tr class="([a-z-]+)">.*?<td class="number">([0-9.]+)</td>', page) == [
        ("passed", "40.0"),
        ("failed", "10.0"),
        ("failed", "3.0"),
        ("not-run", "0.0"),
    ]
    assert "only for windows" in page
    assert 'style="width: 25.0%"' in page


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    assert not re.search(r"https?://|url\(|<script|<img", make_page(tmp_path))
