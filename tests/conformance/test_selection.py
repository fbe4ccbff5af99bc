"""A selection of the specs that Kubernetes' conformance suite has, the quick ones of each part."""

from pathlib import Path

from tests.harness.e2e import CONFORMANCE, PASSED, count, make_focus, run_specs, strip_tags
from tests.harness.kubernetes import Kubernetes

SELECTION = Path(__file__).with_name("selection.txt")
PROCESSES = 6
MINUTES = 12


def test_a_selection_of_conformance_specs_passes(kubernetes: Kubernetes, tmp_path: Path) -> None:
    names = {strip_tags(name) for name in SELECTION.read_text(encoding="utf-8").splitlines()}
    specs = run_specs(
        kubernetes,
        tmp_path,
        labels=CONFORMANCE,
        focus=map(make_focus, sorted(names)),
        processes=PROCESSES,
        minutes=MINUTES,
    )
    assert not names ^ {spec.name for spec in specs}, "the suite has other names"
    bad = [f"{spec.name}: {spec.message}" for spec in specs if spec.state != PASSED]
    assert not bad, f"{count(specs)}\n" + "\n".join(bad)
