"""The conformance specs of Kubernetes, all or those that FOCUS matches, on a cluster with two workers.

What does not pass is a table of docs/conformance.md: a spec that is not in it has to pass, and one that is in
it must not. build/conformance has the results, the suite's log and its report, also of a pass that an
interrupt or its limit, MINUTES, has cut.
"""

import os

import pytest
from tests.harness.cluster import REPOSITORY
from tests.harness.e2e import CONFORMANCE, LOG, PASSED, count, format_table, run_specs
from tests.harness.e2e_page import write_page
from tests.harness.kubernetes import Kubernetes

PAGE = REPOSITORY / "docs/conformance.md"
OUTPUT = REPOSITORY / "build/conformance"
ALONE = "(Serial || Disruptive)"
FOCUS = [expression for expression in (os.environ.get("FOCUS"),) if expression]
PROCESSES = int(os.environ.get("PROCESSES", "4"))
MINUTES = int(os.environ.get("MINUTES", "180"))
"""The limit of each pass."""


def read_known() -> set[str]:
    """The specs that do not pass by docs/conformance.md, by name."""
    rows = ([cell.strip(" `") for cell in line.split("|")] for line in PAGE.read_text().splitlines())
    return {row[1] for row in rows if row[1:2] and row[1].startswith("[sig-")}


@pytest.mark.parametrize(
    ("name", "labels", "processes"),
    [
        ("parallel", f"{CONFORMANCE} && !{ALONE}", PROCESSES),
        ("serial", f"{CONFORMANCE} && {ALONE}", 1),
    ],
)
def test_conformance(kubernetes: Kubernetes, name: str, labels: str, processes: int) -> None:
    specs = run_specs(
        kubernetes, OUTPUT / name, labels=labels, focus=FOCUS, processes=processes, minutes=MINUTES
    )
    known = read_known()
    (OUTPUT / f"{name}.md").write_text(format_table(specs), encoding="utf-8")
    write_page(specs, known, f"{name}/{LOG}", OUTPUT / f"{name}.html")
    print(f"\n{name}: {count(specs)}; {OUTPUT.relative_to(REPOSITORY)}/{name}.html")  # noqa: T201
    problems = [
        f"{spec.name}: {spec.message or f'passes, which {PAGE.name} denies'}"
        for spec in specs
        if (spec.state == PASSED) == (spec.name in known)
    ]
    assert not problems, "\n".join(problems)
