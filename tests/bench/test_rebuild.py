"""How long the image takes to build after an edit of one line of Python, in a clone of the repository.

Everything else is in the Nix store already: the clone is built once before the edit.
"""

import os
import time
import uuid
from pathlib import Path

from tests.bench.report import Budget, Table
from tests.bench.test_size import NIX
from tests.harness.cluster import REPOSITORY

from talos.system.process import run_command

BUDGET = Budget(limit=30, unit="s")
EDITS = (
    ("of a daemon", "python/talos/machined/api/system.py"),
    ("of a layer that all of them share", "python/talos/system/logging.py"),
)


def build(clone: Path) -> float:
    """Seconds of one build."""
    begin = time.monotonic()
    run_command(["nix", "build", ".#squashfs", "--no-link"], cwd=clone, env={**NIX, **os.environ})
    return time.monotonic() - begin


def test_rebuild(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    run_command(["git", "clone", "--quiet", str(REPOSITORY), str(clone)])
    table = Table("Building the image again after an edit of one line, s", ("time",))
    build(clone)
    table.add("without an edit", f"{build(clone):.1f}")
    for title, name in EDITS:
        with (clone / name).open("a", encoding="utf-8") as file:
            file.write(f"\n# {uuid.uuid4()}: no bytes of any earlier build\n")
        seconds = build(clone)
        table.add(title, f"{seconds:.1f}", budget=BUDGET.describe(seconds))
    table.show()
