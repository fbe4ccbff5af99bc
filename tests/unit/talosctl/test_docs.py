"""The tables of docs/talosctl.md and docs/metrics.md are those of the code."""

import json
import re
from pathlib import Path

import pytest
import yaml

from talos.talosctl.cli.exit import Exit
from talos.talosctl.cli.parse import parse
from talos.talosctl.metrics.families import FAMILIES
from talos.talosctl.tree import ROOT

FOLDER = Path(__file__).parents[3] / "docs"
TEXT = (FOLDER / "talosctl.md").read_text(encoding="utf-8")


def test_exit_codes() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \|", TEXT, re.MULTILINE)
    assert [int(code) for row in rows for code in row.split(",")] == list(Exit)


def test_metrics() -> None:
    text = (FOLDER / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(talos_\w+)` \| (\w+) \| (.*) \|$", text, re.MULTILINE)
    assert {name: (kind, meaning) for name, kind, meaning in rows} == FAMILIES


@pytest.mark.parametrize("name", ["dashboard.json", "rules.yaml"])
def test_queries_are_of_metrics_that_exist(name: str) -> None:
    text = (FOLDER / "metrics" / name).read_text(encoding="utf-8")
    used = set(re.findall(r"\btalos_\w+", text))
    assert used
    assert used <= set(FAMILIES)


def test_the_panels_lie_beside_each_other() -> None:
    board = json.loads((FOLDER / "metrics/dashboard.json").read_text(encoding="utf-8"))
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [(x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in [at["y"]]]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_the_manifest_has_a_command_line_that_exists() -> None:
    objects = list(yaml.safe_load_all((FOLDER / "metrics/metrics.yaml").read_text(encoding="utf-8")))
    deployment = next(one for one in objects if one["kind"] == "Deployment")
    invocation = parse(ROOT, deployment["spec"]["template"]["spec"]["containers"][0]["args"])
    assert invocation.path == ("talosctl", "metrics")
