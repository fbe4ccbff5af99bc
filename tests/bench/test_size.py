"""How large the image is, and what it is made of: `make size` has the complete list."""

import os
from pathlib import Path

from tests.bench.report import MEGABYTE, Budget, Table
from tests.harness.cluster import REPOSITORY, image

from talos.system.process import run_command

BUDGET = Budget(limit=60, unit="MB")
SHOWN = 12
NIX = {
    "NIX_CONFIG": "experimental-features = nix-command flakes\n"
    "build-users-group =\nsandbox = true\nsubstituters =\n"
}
"""As in the Makefile, for who runs a benchmark by hand."""


def read_parts(report: str) -> list[tuple[str, float, float]]:
    """The report's rows: a part, megabytes in the image, megabytes unpacked."""
    parts: list[tuple[str, float, float]] = []
    for line in report.splitlines()[1:]:
        columns = line.split()
        if len(columns) > 5 and columns[-2] == columns[-4] == "MB":
            parts.append((" ".join(columns[:-5]), float(columns[-5]), float(columns[-3])))
    return parts


def test_size(tmp_path: Path) -> None:
    table = Table("The image", ("MB", "unpacked, MB"))
    size = image().stat().st_size / MEGABYTE
    argv = ["nix", "build", ".#size", "--out-link", str(tmp_path / "report")]
    run_command(argv, cwd=REPOSITORY, env={**NIX, **os.environ})
    report = (tmp_path / "report").read_text(encoding="utf-8")
    parts = [part for part in read_parts(report) if part[0] != "total"]
    table.add(
        "all of it", f"{size:.1f}", f"{sum(part[2] for part in parts):.1f}", budget=BUDGET.describe(size)
    )
    for name, packed, unpacked in parts[:SHOWN]:
        table.add(f"  {name}", f"{packed:.1f}", f"{unpacked:.1f}")
    rest = parts[SHOWN:]
    table.add(
        f"  {len(rest)} more", f"{sum(part[1] for part in rest):.1f}", f"{sum(part[2] for part in rest):.1f}"
    )
    table.show()
