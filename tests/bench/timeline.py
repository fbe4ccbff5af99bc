"""A boot as a timeline, from a serial line's log: `python -m tests.bench.timeline SERIAL_LOG`."""

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

WIDTH = 50
"""Columns of the longest bar."""
MILESTONES = (
    ("kernel: hardware, drivers", r"Run /init as init process"),
    ("early init: dm-verity, mount", r"device-mapper: verity: sha256 using"),
    ("Python and its first modules", r"\[talos\].* begins$"),
    ("shared modules, State, groups", r"sequence initialize: started"),
    ("networkd runs", r"service\[networkd\]\(Running\): Process started"),
    ("machined's API and controllers", r"phase machined \(\d+/\d+\): done"),
    ("config, or maintenance mode", r"entering maintenance mode|the machine config is complete"),
    ("apid's certificate", r"service\[apid\]\(Preparing\)"),
    ("apid runs", r"service\[apid\]\(Running\): Process started"),
    ("apid answers", r"service\[apid\]\(Running\): Health check successful"),
)
"""What ends with which line. Some go on side by side: a bar is the time since the line before."""
_LINE = re.compile(r"^\[ *(\d+\.\d+)\] (.*)$")


@dataclass(frozen=True, slots=True)
class Milestone:
    """Something that was done ``at`` so many seconds after the kernel's start."""

    name: str
    at: float


def parse_log(lines: Iterable[str]) -> list[Milestone]:
    """The milestones that the log shows, in the order in which they were reached."""
    found: dict[str, float] = {}
    for line in lines:
        match = _LINE.match(line.strip())
        for name, pattern in MILESTONES if match else ():
            if match and name not in found and re.search(pattern, match[2]):
                found[name] = float(match[1])
    return sorted((Milestone(name, at) for name, at in found.items()), key=lambda milestone: milestone.at)


def draw(milestones: Iterable[Milestone]) -> str:
    """One row a milestone: when it was reached, and a bar from the one before."""
    rows = [*milestones]
    if not rows:
        return "no milestone of a boot in this log"
    scale = WIDTH / rows[-1].at
    before, text = 0.0, ""
    for row in rows:
        begin, end = round(before * scale), max(round(row.at * scale), round(before * scale) + 1)
        text += f"{row.at:7.2f} s  {row.name:32}{' ' * begin}{'#' * (end - begin)}\n"
        before = row.at
    return text.rstrip()


def main() -> None:
    """Print the timeline of a serial log."""
    log = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    sys.stdout.write(draw(parse_log(log.splitlines())) + "\n")


if __name__ == "__main__":
    main()
