"""How much memory the daemons of one node take, once everything is up and some calls were answered.

PSS counts a page that several processes share in parts: the sum is what they take together. There
must be no other node on this machine meanwhile, which would take its part of the image's pages.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bench.machine import Measured, run_nodes
from tests.bench.report import MEBIBYTE, Budget, Table

from talos.process.daemons import BY_NAME

BUDGET = Budget(limit=110, unit="MiB")
INIT_BUDGET = Budget(limit=30, unit="MiB")
"""Of PID 1."""
OURS = {"machined", "zygote", *BY_NAME}
PARTS = ("Pss", "Pss_Anon", "Pss_File", "Rss")
SETTLE_DELAY = 5.0  # seconds
"""In which what was needed for the start only is given back."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Measured]:
    with run_nodes(tmp_path) as measured:
        measured.settle()
        yield measured


def read_memory(pid: int) -> dict[str, float]:
    """MiB, by the kernel's names."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return {
        name: int(kilobytes) * 1024 / MEBIBYTE
        for name, kilobytes in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)
    }


def name_processes(node: Measured) -> dict[str, list[int]]:
    """Pids by service; PID 1 is machined, whatever it calls itself."""
    first = node.cluster.nodes[0].pid
    found = {
        name: [pid for pid in pids if pid != first] for name, pids in node.cluster.processes().items() if name
    }
    return {"machined": [first]} | {name: pids for name, pids in found.items() if pids}


def test_memory(node: Measured) -> None:
    for argv in (("version",), ("memory",), ("get", "addresses"), ("dmesg",)):
        node.cluster.talosctl(*argv)
    time.sleep(SETTLE_DELAY)
    table = Table("Memory of one control plane node, MiB", ("PSS", "heaps", "files", "RSS"))
    totals = dict.fromkeys(PARTS, 0.0)
    rows = [(name, read_memory(pid)) for name, pids in name_processes(node).items() for pid in pids]
    for name, memory in sorted(rows, key=lambda row: -row[1]["Pss"]):
        budget = INIT_BUDGET.describe(memory["Pss"]) if name == "machined" else ""
        table.add(f"  {name}", *(f"{memory[part]:.1f}" for part in PARTS), budget=budget)
        for part in PARTS if name in OURS else ():
            totals[part] += memory[part]
    cells = [f"{totals[part]:.1f}" for part in PARTS]
    table.rows.insert(0, ("our daemons together", *cells, BUDGET.describe(totals["Pss"])))
    table.show()
