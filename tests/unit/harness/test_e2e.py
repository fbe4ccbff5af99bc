"""What becomes of ginkgo's report: the specs that were chosen, by names without tags."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, override

import pytest
from tests.harness import e2e
from tests.harness.e2e import FAILED, PASSED, SKIPPED, Spec, count, format_table, read_report, run_specs
from tests.harness.kubernetes import Kubernetes


def report(chosen: int, *specs: Mapping[str, object]) -> list[dict[str, object]]:
    usual: dict[str, object] = {
        "ContainerHierarchyTexts": ["[sig-node] Pods", "[LinuxOnly] Logs"],
        "LeafNodeType": "It",
        "RunTime": 2_000_000_000,
    }
    return [
        {
            "PreRunStats": {"SpecsThatWillRun": chosen},
            "SpecReports": [{**usual, **spec} for spec in specs],
            "SpecialSuiteFailureReasons": ["Suite Timeout Elapsed"],
        }
    ]


def test_specs_that_were_chosen_are_results() -> None:
    found = read_report(
        report(
            3,
            {"LeafNodeText": "b [NodeConformance] [Conformance]", "State": "passed"},
            {"LeafNodeText": "a", "State": "timedout", "Failure": {"Message": "late\n  | again"}},
            {"LeafNodeText": "c", "State": "skipped"},
            {"LeafNodeText": "d", "State": "skipped", "Failure": {"Message": "one node"}},
            {"LeafNodeText": "e", "State": "pending"},
        )
    )
    name = "[sig-node] Pods [LinuxOnly] Logs"
    assert found == [
        Spec(name=f"{name} a", state=FAILED, seconds=2, message="late | again"),
        Spec(name=f"{name} b", state=PASSED, seconds=2, message=""),
        Spec(name=f"{name} d", state=SKIPPED, seconds=2, message="one node"),
    ]
    assert count(found) == "1 passed, 1 failed, 1 skipped"
    assert f"| failed | 2 | {name} a | late \\| again |" in format_table(found)


def test_specs_for_which_there_was_no_time_are_counted() -> None:
    found = read_report(report(3, {"LeafNodeText": "a", "State": "passed"}))
    missed = Spec(name="2 specs did not run", state=FAILED, seconds=0, message="Suite Timeout Elapsed")
    assert missed in found


def test_what_fails_before_all_specs_is_an_error() -> None:
    failed = {"LeafNodeType": "SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": "no node"}}
    with pytest.raises(AssertionError, match="SynchronizedBeforeSuite: failed: no node"):
        read_report(report(1, failed))


GINKGO = """\
#!/bin/sh
cat {results} >> report.json
"""
"""What takes the place of ginkgo: it ends when there is something in the pipe."""


def test_an_interrupt_leaves_the_results_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ginkgo, results, kubeconfig = (tmp_path / name for name in ("ginkgo", "results", "kubeconfig"))
    ginkgo.write_text(GINKGO.format(results=results), encoding="utf-8")
    ginkgo.chmod(0o755)
    os.mkfifo(results)
    kubeconfig.touch()
    waits: list[str] = []

    class Interrupted(subprocess.Popen[bytes]):
        @override
        def wait(self, timeout: float | None = None) -> int:
            waits.append("wait")
            if len(waits) == 1:
                raise KeyboardInterrupt
            if len(waits) == 2:
                passed = {"LeafNodeText": "a", "State": "passed"}
                results.write_text(json.dumps(report(3, passed)), encoding="utf-8")
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    monkeypatch.setattr(e2e, "GINKGO", ginkgo)
    monkeypatch.setattr(e2e, "SUITE", ginkgo)
    found = run_specs(
        Kubernetes(cast("Any", None), kubeconfig), tmp_path / "folder", labels="", processes=1, minutes=1
    )
    assert count(found) == "1 passed, 1 failed, 0 skipped"
    assert "2 specs did not run" in {spec.name for spec in found}
