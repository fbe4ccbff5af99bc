"""What docs/ has of codes, metrics, commands and files is so."""

import csv
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.harness.pages import read_command_lines, select_command

from talos.talosctl.cli.exit import Exit
from talos.talosctl.cli.parse import parse
from talos.talosctl.metrics.families import FAMILIES, find_family
from talos.talosctl.tree import ROOT

FOLDER = Path(__file__).parents[3] / "docs"
ROWS = (FOLDER.parent / "python/talos/api/resources.tsv").read_text(encoding="utf-8").splitlines()
RESOURCES = {"rd"} | {
    name.lower()
    for row in csv.DictReader(ROWS, delimiter="\t")
    for column in ("type", "display_type", "explicit_aliases", "computed_aliases")
    for name in row[column].split(",")
}
TEXT = (FOLDER / "talosctl.md").read_text(encoding="utf-8")


def test_exit_codes() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \|", TEXT, re.MULTILINE)
    assert [int(code) for row in rows for code in row.split(",")] == list(Exit)


@pytest.mark.parametrize("name", ["dashboard.json", "rules.yaml"])
def test_queries_are_of_metrics_that_exist(name: str) -> None:
    text = (FOLDER / "metrics" / name).read_text(encoding="utf-8")
    used = set(re.findall(r"\btalos_\w+", text))
    assert used
    assert {find_family(name) for name in used} <= set(FAMILIES)


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


def read_pages() -> Iterator[tuple[str, str]]:
    """Every command line of talosctl in a code block, with its page."""
    for page in sorted((FOLDER.parent / "README.md", *FOLDER.rglob("*.md"))):
        for line in read_command_lines(page.read_text(encoding="utf-8")):
            yield page.name, line


@pytest.mark.parametrize(("page", "line"), list(read_pages()))
def test_command_lines_exist(page: str, line: str) -> None:
    # What a reader or a shell puts in.
    assert "   " not in line, f"{page}: what is no part of the command begins with #"
    _, *words = shlex.split(re.sub(r"\$\(.*?\)", "X", line))
    invocation = parse(ROOT, words)
    if invocation.path == ("talosctl", "get"):
        assert invocation.args[0].lower() in RESOURCES, f"{page}: no such resource"


@pytest.mark.parametrize(("page", "commands"), [("first-cluster.md", 11), ("troubleshooting.md", 18)])
def test_most_commands_of_these_pages_are_run_on_a_cluster(page: str, commands: int) -> None:
    lines = read_command_lines((FOLDER / page).read_text(encoding="utf-8"))
    selected = [line for line in lines if select_command(line, {})]
    assert len(selected) >= commands, selected


def test_configs_are_generated_for_the_version_of_kubernetes_whose_images_are_built() -> None:
    roots = tomllib.loads((FOLDER.parent / "pkgs/roots.toml").read_text(encoding="utf-8"))
    (module,) = roots["go"]["sets"]["kubernetes"]["modules"]
    version = module.rpartition("@v")[2]
    shown = re.compile(r"talosctl (?:gen config|image k8s-bundle) (.*)$", re.MULTILINE)
    for page in ("docs/air-gap.md", "docs/image-cache.md", "docs/iso-to-cluster.md", "pkgs/airgap/README.md"):
        found = shown.findall((FOLDER.parent / page).read_text(encoding="utf-8"))
        assert found, page
        for flags in found:
            assert re.search(rf"--(?:kubernetes-version |k8s-version v){re.escape(version)}\b", flags), page


def test_the_changelog_begins_with_the_version_of_this_tree() -> None:
    version = (FOLDER.parent / "VERSION").read_text(encoding="utf-8").strip()
    sections = re.findall(
        r"^## (\S+)", (FOLDER.parent / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sections[0] == version


def test_links_lead_somewhere() -> None:
    for page in (FOLDER.parent / "README.md", *FOLDER.rglob("*.md")):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            if "://" in path:
                continue
            target = (page.parent / path) if path else page
            assert target.exists(), f"{page.name}: {link}"
            if anchor and target.suffix == ".md":
                assert anchor in make_anchors(target), f"{page.name}: {link}"


def make_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
