"""Kubernetes' own suite of end-to-end tests: run on a cluster, and what became of each spec."""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.cluster import REPOSITORY
from tests.harness.kubernetes import KUBECTL, Kubernetes

GINKGO = REPOSITORY / "build/conformance-runner-ginkgo/bin/ginkgo"
SUITE = REPOSITORY / "build/conformance-suite-e2e/bin/e2e.test"
IMAGES = REPOSITORY / "build/images-e2e"
CONFORMANCE = "Conformance"
"""The label of the specs that every cluster has to pass."""
PASSED, SKIPPED, FAILED = "passed", "skipped", "failed"
NODES = 2
"""How many take pods in each cluster. Only the first of the suite's processes counts them by itself."""
TAGS = re.compile(r"( \[[A-Za-z]+(:[\w.]+)?\])+$")
REPORT, LOG = "report.json", "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What became of one spec that was chosen."""

    name: str
    """Without the tags at its end, of which versions have more or fewer."""
    state: str
    seconds: float
    message: str
    """Why it failed, or skipped itself; on one line."""


def add_images(folder: Path) -> None:
    """Link the archives of the images that specs start in pods into a folder of archives."""
    assert IMAGES.exists(), f"there are no images at {IMAGES}: make conformance-inputs"
    for path in IMAGES.iterdir():
        (folder / path.name).symlink_to(path.resolve())


def run_specs(
    kubernetes: Kubernetes,
    folder: Path,
    *,
    labels: str,
    focus: Iterable[str] = (),
    processes: int,
    minutes: int,
) -> list[Spec]:
    """Run the specs whose labels match a filter of ginkgo's and whose names match an expression in ``focus``.

    Without an expression, every name does. Log and report are in ``folder``. An interrupt ends the specs that
    run, and what has ended until then is returned. AssertionError when ginkgo wrote no report.
    """
    assert SUITE.exists(), f"there is no suite at {SUITE}: make conformance-inputs"
    folder.mkdir(parents=True, exist_ok=True)
    kubernetes.command()  # writes the kubeconfig
    command = [
        str(GINKGO),
        f"--procs={processes}",
        f"--timeout={minutes}m",
        f"--label-filter={labels}",
        *(f"--focus={expression}" for expression in focus),
        "--no-color",
        "--silence-skips",
        "-v",  # the log names what has passed, too, for a run that was killed
        f"--output-dir={folder}",
        f"--json-report={REPORT}",
        str(SUITE),
        "--",
        f"--kubeconfig={kubernetes.kubeconfig}",
        f"--kubectl-path={KUBECTL}",
        "--provider=skeleton",
        f"--num-nodes={NODES}",
    ]
    log = folder / LOG
    report = folder / REPORT
    report.unlink(missing_ok=True)
    with (
        log.open("w", encoding="utf-8") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder) as ginkgo,
    ):
        try:
            ginkgo.wait()
        except KeyboardInterrupt:  # of the terminal's whole process group: ginkgo writes its report
            ginkgo.wait()
    assert report.exists(), f"ginkgo wrote no {report}:\n{log.read_text(encoding='utf-8')[-4000:]}"
    return read_report(json.loads(report.read_text(encoding="utf-8")))


def read_report(suites: Sequence[Mapping[str, Any]]) -> list[Spec]:
    """Parse ginkgo's report; AssertionError when what is before all specs failed.

    Specs that were chosen and did not run, for want of time, have no names in it: one failed row counts them.
    """
    specs: list[Spec] = []
    for suite in suites:
        missed = suite["PreRunStats"]["SpecsThatWillRun"]
        for each in suite["SpecReports"]:
            message = " ".join(str(each.get("Failure", {}).get("Message", "")).split())
            if each["LeafNodeType"] != "It":
                assert each["State"] == PASSED, f"{each['LeafNodeType']}: {each['State']}: {message}"
                continue
            if each["State"] == "pending" or (each["State"] == SKIPPED and not message):
                continue
            missed -= 1
            name = " ".join([*each["ContainerHierarchyTexts"], each["LeafNodeText"]])
            specs.append(
                Spec(
                    name=strip_tags(name),
                    state=each["State"] if each["State"] in {PASSED, SKIPPED} else FAILED,
                    seconds=each["RunTime"] / 1e9,
                    message=message,
                )
            )
        if missed:
            reasons = ", ".join(suite["SpecialSuiteFailureReasons"] or ())
            specs.append(Spec(name=f"{missed} specs did not run", state=FAILED, seconds=0, message=reasons))
    return sorted(specs, key=lambda spec: spec.name)


def strip_tags(name: str) -> str:
    """Remove tags such as [Conformance] from the end of a spec's name."""
    return TAGS.sub("", name)


def make_focus(name: str) -> str:
    """An expression for one spec: its tags are behind its name, and some names begin like others."""
    return rf"{re.escape(name)}( \[[\w:.]+\])*$"


def count(specs: Iterable[Spec]) -> str:
    """How many specs are in each state, as in ``57 passed, 1 failed, 0 skipped``."""
    states = [spec.state for spec in specs]
    return ", ".join(f"{states.count(state)} {state}" for state in (PASSED, FAILED, SKIPPED))


def format_table(specs: Sequence[Spec]) -> str:
    """Format the results for a reader, those first that did not pass."""
    rows = [f"{count(specs)}\n", "| result | seconds | spec | why |", "|---|---|---|---|"]
    for spec in sorted(specs, key=lambda spec: ([FAILED, SKIPPED, PASSED].index(spec.state), spec.name)):
        why = spec.message[:300].replace("|", "\\|")
        rows.append(f"| {spec.state} | {spec.seconds:.0f} | {spec.name} | {why} |")
    return "\n".join(rows) + "\n"
