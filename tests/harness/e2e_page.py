"""What became of Kubernetes' specs as one page, like that of `make test`."""

from collections.abc import Collection, Iterator, Sequence
from html import escape
from pathlib import Path

from tests.harness.e2e import FAILED, PASSED, SKIPPED, Spec, count
from tests.run.output import format_time
from tests.run.page import CLOSE_PAGE, CLOSE_TABLE, open_page, open_table

MARKS = {PASSED: "✓", FAILED: "✕", SKIPPED: "!"}
CLASSES = {PASSED: "passed", FAILED: "failed", SKIPPED: "not-run"}


def write_page(specs: Sequence[Spec], known: Collection[str], log: str, path: Path) -> None:
    """Write the page. ``known`` are the specs that are named not to pass, ``log`` is the suite's output."""
    path.write_text("\n".join(_format_page(specs, known, log)) + "\n", encoding="utf-8")


def _format_page(specs: Sequence[Spec], known: Collection[str], log: str) -> Iterator[str]:
    title = count(specs)
    spent = format_time(sum(spec.seconds for spec in specs))
    yield from open_page(title)
    yield f"<h1>{title}</h1>"
    yield f'<p>{spent} minutes, of all specs one after another; <a href="{escape(log)}">the log</a>.</p>'
    for spec in specs:
        if spec.state == FAILED:
            of_known = ", as the documentation names it" if spec.name in known else ""
            yield f'<h2 class="failed">✕ {escape(spec.name)} failed{of_known}</h2>'
            yield f'<pre tabindex="0">{escape(spec.message)}</pre>'
    longest = max((spec.seconds for spec in specs), default=0) or 1
    yield from open_table("Specs", ("spec", "result", "seconds", "as long as"), (2,))
    for spec in sorted(specs, key=lambda spec: spec.seconds, reverse=True):
        bar = f'<div class="bar" style="width: {100 * spec.seconds / longest:.1f}%"></div>'
        why = f'<br><span class="muted">{escape(spec.message)}</span>' if spec.state == SKIPPED else ""
        yield (
            f'<tr class="{CLASSES[spec.state]}"><td><code>{escape(spec.name)}</code>{why}</td>'
            f"<td>{MARKS[spec.state]} {spec.state}</td>"
            f'<td class="number">{spec.seconds:.1f}</td><td class="when">{bar}</td></tr>'
        )
    yield CLOSE_TABLE
    yield CLOSE_PAGE
