"""The end of a run as one page, which lies beside the logs that it links to; nothing is from elsewhere."""

from collections.abc import Collection, Iterator, Sequence
from html import escape
from pathlib import Path

from tests.run.job import Counts, Outcome, State
from tests.run.output import format_time
from tests.run.summary import MAX_LISTED, count, find_longest, find_restarts

MARKS = {State.PASSED: "✓", State.FAILED: "✕", State.UNCHANGED: "=", State.NOT_RUN: "!"}
"""A state is not shown by a colour alone."""
_NUMBERS = range(2, 7)
"""The columns of a job's row that are numbers."""
NEW_LINE = "\n"  # for Python 3.11, which has no such escape within an f-string
STYLE = """
:root { color-scheme: light dark; --line: #8886; --bar: #3b82c4; --good: light-dark(#0f5a24, #83e09b);
  --bad: light-dark(#9a1223, #ffaaa5); --muted: light-dark(#525b65, #a2acb7); }
html { background: Canvas; color: CanvasText; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; font: 1rem/1.45 system-ui, sans-serif; }
h1, h2 { line-height: 1.2; }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.when { min-width: 12rem; width: 30%; }
.bar { height: .8rem; margin-top: .35rem; background: var(--bar); border-radius: .2rem; min-width: 2px; }
.failed, .failed .bar { color: var(--bad); }
.failed .bar { background: currentColor; }
.passed td:nth-child(2) { color: var(--good); }
.unchanged, .not-run, .muted { color: var(--muted); }
pre { overflow-x: auto; padding: .75rem; border: 1px solid var(--line); font-size: .85rem; }
code { overflow-wrap: anywhere; }
"""


def write_page(outcomes: Sequence[Outcome], seconds: float, locks: Sequence[str], path: Path) -> None:
    """Write the page."""
    path.write_text("\n".join(_format_page(outcomes, seconds, locks)) + "\n", encoding="utf-8")


def open_page(title: str) -> Iterator[str]:
    """The lines before what is to be read."""
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{STYLE}</style></head><body>'


def open_table(heading: str, titles: Sequence[str], numbers: Collection[int]) -> Iterator[str]:
    """The lines before a table's first row; ``numbers`` are the columns of numbers."""
    cells = (f'<th scope="col"{_number(at, numbers)}>{escape(title)}</th>' for at, title in enumerate(titles))
    yield f'<h2>{escape(heading)}</h2><div class="table" tabindex="0"><table><thead><tr>'
    yield f"{''.join(cells)}</tr></thead><tbody>"


CLOSE_TABLE = "</tbody></table></div>"
CLOSE_PAGE = "</body></html>"


def _format_page(outcomes: Sequence[Outcome], seconds: float, locks: Sequence[str]) -> Iterator[str]:
    counts = count(outcomes)
    title = f"{counts.passed} passed, {counts.failed} failed"
    yield from open_page(title)
    yield f"<h1>{title}, {counts.skipped} skipped</h1>"
    spent = sum(outcome.processor_seconds or 0 for outcome in outcomes)
    yield f"<p>{format_time(seconds)} minutes, {format_time(spent)} of processor time.</p>"
    yield from (f"<p>{escape(line)}</p>" for line in locks)
    yield from _format_failures(outcomes)
    yield from _format_jobs(outcomes, seconds)
    yield from _format_longest(outcomes)
    if restarts := find_restarts(outcomes):
        yield "<h2>Started anew, as an emulated processor stood still</h2><ul>"
        yield from (f"<li>{escape(line)}</li>" for line in restarts)
        yield "</ul>"
    yield CLOSE_PAGE


def _format_failures(outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        name, reason = escape(outcome.job.name), escape(outcome.reason)
        if outcome.state is State.FAILED:
            yield f'<h2 class="failed">✕ {name} failed: {reason}</h2><p>{_link(outcome)} ends with</p>'
            yield f'<pre tabindex="0">{escape(NEW_LINE.join(outcome.tail))}</pre>'
        elif outcome.state is State.NOT_RUN:
            yield f'<p class="not-run">! {name} was not run: {reason}</p>'


def _format_jobs(outcomes: Sequence[Outcome], seconds: float) -> Iterator[str]:
    titles = ("job", "result", "took", "processor", "passed", "failed", "skipped", "from start to end")
    yield from open_table("Jobs", titles, _NUMBERS)
    for outcome in sorted(outcomes, key=lambda one: one.seconds, reverse=True):
        yield _format_job(outcome, max(seconds, 1.0))
    yield CLOSE_TABLE


def _format_job(outcome: Outcome, seconds: float) -> str:
    has_run = outcome.state in (State.PASSED, State.FAILED)
    spent = outcome.processor_seconds
    counts = outcome.counts
    cells = (
        _link(outcome),
        f"{MARKS[outcome.state]} {outcome.state.value}",
        format_time(outcome.seconds) if has_run else "",
        "" if spent is None else format_time(spent),
        *_format_counts(counts),
    )
    row = "".join(f"<td{_number(at, _NUMBERS)}>{cell}</td>" for at, cell in enumerate(cells))
    start, length = 100 * outcome.started / seconds, 100 * outcome.seconds / seconds
    place = f"margin-left: {start:.1f}%; width: {length:.1f}%"
    bar = f'<div class="bar" style="{place}"></div>' if has_run else escape(outcome.reason)
    return f'<tr class="{outcome.state.name.lower().replace("_", "-")}">{row}<td class="when">{bar}</td></tr>'


def _format_counts(counts: Counts) -> tuple[str, str, str]:
    return (str(counts.passed or ""), str(counts.failed or ""), str(counts.skipped or ""))


def _format_longest(outcomes: Sequence[Outcome]) -> Iterator[str]:
    longest = find_longest(outcomes)[:MAX_LISTED]
    if longest:
        yield from open_table("The longest tests", ("seconds", "test"), (0,))
        for seconds, name in longest:
            yield f'<tr><td class="number">{seconds:.1f}</td><td><code>{escape(name)}</code></td></tr>'
        yield CLOSE_TABLE


def _link(outcome: Outcome) -> str:
    name = escape(outcome.job.name)
    has_run = outcome.state in (State.PASSED, State.FAILED)
    return f'<a href="{name}.log">{name}</a>' if has_run else name


def _number(at: int, numbers: Collection[int]) -> str:
    return ' class="number"' if at in numbers else ""
