"""A selection of the specs that Kubernetes' conformance suite has, the quick ones of each part."""

import re
from pathlib import Path

from tests.harness.e2e import CONFORMANCE, PASSED, count, run_specs, strip_tags
from tests.harness.kubernetes import Kubernetes

SELECTION = Path(__file__).with_name("selection.txt")
PROCESSES = 6
MINUTES = 12


def test_a_selection_of_conformance_specs_passes(kubernetes: Kubernetes, tmp_path: Path) -> None:
    names = {strip_tags(name) for name in SELECTION.read_text(encoding="utf-8").splitlines()}
    # The tags of a spec are behind its name, and some names begin like others.
    focus = [rf"{re.escape(name)}( \[[\w:.]+\])*$" for name in sorted(names)]
    specs = run_specs(
        kubernetes, tmp_path, labels=CONFORMANCE, focus=focus, processes=PROCESSES, minutes=MINUTES
    )
    assert not names ^ {spec.name for spec in specs}, "the suite has other names"
    bad = [f"{spec.name}: {spec.message}" for spec in specs if spec.state != PASSED]
    assert not bad, f"{count(specs)}\n" + "\n".join(bad)
