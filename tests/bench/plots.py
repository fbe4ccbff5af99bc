"""Plots of docs/measurements.md, from the figures in it: `python -m tests.bench.plots` draws them anew."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/measurements.md"
WIDTH, LABEL, ROW, TOP = 720, 300, 24, 44
"""Pixels: of a plot, of its labels, of a row, above the first row."""
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; } .title { font-weight: 600; }
rect { fill: #3b82c4; } .peer { fill: #8b949e; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } }
"""
type Bar = tuple[str, float, bool]
"""A label, a figure, and whether it is that of a peer, or of a program that is not of this project."""


def draw_bars(title: str, unit: str, bars: Sequence[Bar]) -> str:
    """A bar for each figure as SVG, those of others in grey."""
    maximum = max(value for _, value, _ in bars) or 1.0
    height = TOP + ROW * len(bars) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="8" y="24">{escape(title)}</text>',
    ]
    for at, (label, value, is_peer) in enumerate(bars):
        y, length = TOP + ROW * at, (WIDTH - LABEL - 100) * value / maximum
        kind = ' class="peer"' if is_peer else ""
        lines += [
            f'<text x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>',
            f'<rect{kind} x="{LABEL}" y="{y + 3}" width="{max(length, 1):.1f}" height="16" rx="2"/>',
            f'<text x="{LABEL + length + 8:.1f}" y="{y + 15}">{value:g} {escape(unit)}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def find_row(text: str, label: str) -> list[str]:
    """The cells behind the first cell of a table that begins with a label; LookupError."""
    found = re.search(rf"^\| {re.escape(label)}[^|]*\|(.*)\|$", text, re.MULTILINE)
    if found is None:
        raise LookupError(f"{PAGE.name} has no row that begins with {label!r}")
    return [cell.strip() for cell in found[1].split("|")]


def split_row(text: str, label: str, column: int) -> Iterator[tuple[str, float]]:
    """The figures of a row that has several, each with its own part of the label."""
    (whole,) = re.findall(rf"^\| ({re.escape(label)}[^|]*) \|", text, re.MULTILINE)[:1]
    names = whole.split("; ")
    figures = re.findall(r"\d+(?:\.\d+)?", find_row(text, label)[column])
    yield from ((name, float(figure)) for name, figure in zip(names, figures, strict=True))


def make_start(text: str) -> str:
    """How long a container node takes to start."""
    rows = ("PID 1 begins", "`Version` is answered", "every service is up")
    bars = [(row.replace("`", ""), float(find_row(text, row)[1]), False) for row in rows]
    peer = re.findall(r"upstream about (\d+\.\d+)", " ".join(find_row(text, "launch of a container node")))
    bars.insert(2, ("upstream: Version is answered", 1000 * float(peer[0]), True))
    return draw_bars("Launch of a container node, median", "ms", bars)


def make_memory(text: str) -> str:
    """Memory by daemon of a control plane node."""
    labels = ("machined", "kubed", "networkd", "trustd", "apid", "routerd", "containerd, two")
    bars = [
        (name, value, name.startswith("containerd"))
        for label in labels
        for name, value in split_row(text, label, 0)
    ]
    etcd = float(find_row(text, "etcd, its shim")[0].split(",")[0])
    return draw_bars("Memory of an idle control plane node, PSS", "MiB", [*bars, ("etcd", etcd, True)])


def make_calls(text: str) -> str:
    """Latency of a call beside upstream's."""
    row = " ".join(find_row(text, "`Memory` through apid"))
    own, peer = (re.findall(r"\d+\.\d+", part)[:2] for part in row.split("upstream"))
    bars = [
        (f"{who}{name}", float(figures[at]), bool(who))
        for at, name in enumerate(("half of the calls within", "99 % of the calls within"))
        for who, figures in (("", own), ("upstream: ", peer))
    ]
    return draw_bars("A call of Memory through apid, routerd, machined", "ms", bars)


def make_upgrade(text: str) -> str:
    """How far an upgrade is after so many seconds."""
    bars = [(name, value, False) for name, value in split_row(text, "pulled; signature", 0)]
    return draw_bars("Upgrade of a container node, seconds until", "s", bars)


PLOTS: Mapping[str, Callable[[str], str]] = {
    "start": make_start,
    "memory": make_memory,
    "calls": make_calls,
    "upgrade": make_upgrade,
}


def main() -> None:
    """Write them beside the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, make in PLOTS.items():
        PAGE.with_name(f"plot-{name}.svg").write_text(make(text), encoding="utf-8")


if __name__ == "__main__":
    main()
