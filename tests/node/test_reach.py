"""What an attacker in one daemon reaches, as docs/security.md shows it. What widens it fails here.

With UPDATE_REACH=1 the tables are written anew (`make reach`).
"""

import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from tests.harness.cluster import REPOSITORY, Cluster

from talos.machined.containerd.client import SYSTEM_ROOT
from talos.process.daemons import DAEMONS, DaemonSpec
from talos.process.grants import load_grants
from talos.resource.kinds import REGISTRY
from talos.system.process import run_command

PAGE = REPOSITORY / "docs/security.md"
BEGIN, END = "<!-- reach: begin -->\n", "<!-- reach: end -->\n"
PROGRAM = Path(__file__).with_name("reach.py")
ON_NODES = {
    "sockets": "sockets that answer",
    "writes": "files that open for writing",
    "reads": "files that open though they are not for all",
    "families": "sockets that it makes",
    "calls": "of 45 system calls of attacks, pass",
}
IN_STATE = {"written": "resources that it writes", "secret": "sensitive ones that it reads"}
NOTHING = "none"
UNPACKED = {"udevd": str(Path(SYSTEM_ROOT).parents[1])}
"""What daemons read once the system's containerd has unpacked an image, which it may not have done yet."""


def find_reach(cluster: Cluster, daemon: DaemonSpec) -> dict[str, list[str]]:
    """What is found on the node."""
    command = [sys.executable, "-B", str(PROGRAM), daemon.name, str(cluster.nodes[0].pid)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found: dict[str, list[str]] = json.loads(run_command(command, env=environment, timeout=60).stdout)
    if folder := UNPACKED.get(daemon.name):
        found["reads"] = sorted({*found["reads"], folder})
    return found


def find_granted(daemon: DaemonSpec) -> dict[str, list[str]]:
    """What the grants allow."""
    granted = load_grants()[daemon.name]
    readable = {name for name, _ in granted.ids} | granted.owners.keys()
    return {
        "written": sorted(name.partition(".")[0] for name in granted.owners),
        "secret": sorted(name.partition(".")[0] for name in readable if REGISTRY[name].sensitive),
    }


def make_table(titles: Mapping[str, str], rows: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """A table of Markdown, with a row for each daemon."""
    lines = [f"| daemon | {' | '.join(titles.values())} |", "|---" * (len(titles) + 1) + "|"]
    for daemon, found in rows.items():
        cells = [", ".join(f"`{item}`" for item in found[column]) or NOTHING for column in titles]
        lines.append(f"| {daemon} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def parse_tables(page: str, columns: Iterable[str]) -> dict[tuple[str, str], set[str]]:
    """The cells of both tables, by daemon and column."""
    text = page.partition(BEGIN)[2].partition(END)[0]
    found: dict[tuple[str, str], set[str]] = {}
    for table, names in zip(text.strip().split("\n\n"), (list(ON_NODES), list(IN_STATE)), strict=True):
        for line in table.splitlines()[2:]:
            daemon, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            for name, cell in zip(names, cells, strict=True):
                items = () if cell == NOTHING else cell.split(", ")
                found[daemon, name] = {item.strip("`") for item in items}
    assert {name for _, name in found} == set(columns)
    return found


def keep_idle(
    found: Mapping[str, dict[str, list[str]]], shown: Mapping[tuple[str, str], Collection[str]]
) -> None:
    """Add the sockets that are shown of daemons that this node's config does not need: they don't run."""
    idle = [daemon.socket for daemon in DAEMONS if daemon.on_demand]
    for name, columns in found.items():
        here, known = columns["sockets"], shown.get((name, "sockets"), ())
        here += [socket for socket in idle if socket in known and socket not in here]


@pytest.fixture(scope="module")
def reached(cluster: Cluster) -> dict[str, dict[str, list[str]]]:
    """What each daemon reaches on the node; the page is updated on request."""
    on_node = {daemon.name: find_reach(cluster, daemon) for daemon in DAEMONS}
    granted = {daemon.name: find_granted(daemon) for daemon in DAEMONS}
    if os.environ.get("UPDATE_REACH"):
        page = PAGE.read_text(encoding="utf-8")
        keep_idle(on_node, parse_tables(page, (*ON_NODES, *IN_STATE)))
        head, _, rest = page.partition(BEGIN)
        tables = f"{make_table(ON_NODES, on_node)}\n{make_table(IN_STATE, granted)}"
        PAGE.write_text(f"{head}{BEGIN}{tables}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return {name: {**on_node[name], **granted[name]} for name in on_node}


@pytest.mark.parametrize("daemon", DAEMONS, ids=lambda daemon: daemon.name)
def test_a_fallen_daemon_reaches_no_more_than_the_page_shows(
    reached: dict[str, dict[str, list[str]]], daemon: DaemonSpec
) -> None:
    shown = parse_tables(PAGE.read_text(encoding="utf-8"), (*ON_NODES, *IN_STATE))
    wider = {
        column: more
        for column, found in reached[daemon.name].items()
        if (more := sorted(set(found) - shown[daemon.name, column]))
    }
    assert not wider, "after a look at what that allows: make reach"
    for column in IN_STATE:
        assert set(reached[daemon.name][column]) == shown[daemon.name, column], column


def test_what_is_not_shown_is_found(reached: dict[str, dict[str, list[str]]]) -> None:
    """The looks find what there is: each daemon's own socket to the State, its folder, its families."""
    for daemon in DAEMONS:
        if not daemon.needs_devices:
            assert daemon.state_socket in reached[daemon.name]["sockets"]
        assert {"/dev", "/dev/null"} & set(reached[daemon.name]["writes"])
        assert "unix" in reached[daemon.name]["families"]
