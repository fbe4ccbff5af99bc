"""The tables of docs/talosctl.md are those of the code."""

import re
from pathlib import Path

from talos.talosctl.cli.exit import Exit

TEXT = (Path(__file__).parents[3] / "docs/talosctl.md").read_text(encoding="utf-8")


def test_exit_codes() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \|", TEXT, re.MULTILINE)
    assert [int(code) for row in rows for code in row.split(",")] == list(Exit)
