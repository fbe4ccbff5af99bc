"""The table of jobs, and what is made of the flake's checks."""

import subprocess
from pathlib import Path

import pytest
from tests.run.capacity import PROCESSOR_SHARE, Capacity, choose, sort_by_urgency
from tests.run.job import with_needs
from tests.run.jobs import BUILDS, FETCH, SUITES, TARGETS, make, make_checks, make_machine_inputs
from tests.run.nix import Check
from tests.run.plan import choose_names, find_bases

NAMES = ("lint", "unit-1", "unit-docs", "vm-boot", "vm-upgrade", "vm-slow")
CHECKS = {name: Check(derivation=f"/nix/store/{name}.drv", output=f"/nix/store/{name}") for name in NAMES}
MAKEFILE = """
.PHONY: tools build node
tools: ; @echo tools
build: tools ; @echo build
node: build ; @echo node
"""


def test_every_check_is_a_job_but_those_left_out() -> None:
    jobs = {job.name: job for job in make_checks(CHECKS, {"vm-slow"}, {})}
    assert list(jobs) == ["lint", "unit-1", "unit-docs", "vm-boot", "vm-upgrade"]
    assert jobs["vm-boot"].command[:3] == ("nix", "build", "/nix/store/vm-boot.drv")
    assert jobs["vm-boot"].needs == ("fetch", "machine-inputs")
    assert jobs["unit-1"].minutes > jobs["unit-docs"].minutes
    assert jobs["vm-upgrade"].minutes > jobs["vm-boot"].minutes


def test_whatever_a_job_needs_is_a_job() -> None:
    suites = [suite.job for suite in SUITES]
    jobs = [FETCH, *BUILDS, make_machine_inputs([]), *make_checks(CHECKS, (), {}), *suites]
    names = {job.name for job in jobs}
    assert {need for job in jobs for need in job.needs} <= names
    assert set(TARGETS) - names == {"tools", "vm-inputs"}, "parts of the job fetch"


def test_targets_take_what_other_jobs_made_as_made(tmp_path: Path) -> None:
    """And make themselves, when others need them."""
    (tmp_path / "Makefile").write_text(MAKEFILE, encoding="ascii")
    try:
        made = [
            subprocess.run(make(target), cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True).stdout
            for target in ("build", "node")
        ]
    except FileNotFoundError:
        pytest.skip("there is no make here")
    assert made == ["build\n", "node\n"]


def test_a_job_does_not_take_itself_as_made() -> None:
    for job in BUILDS:
        *before, target = job.command
        assert target not in before


def test_suites_tell_their_longest_tests() -> None:
    for suite in SUITES:
        assert "--durations" in suite.job.environment["PYTEST_ADDOPTS"], suite.job.name


def test_builds_run_only_when_a_test_needs_them() -> None:
    jobs = [*BUILDS, make_machine_inputs([]), *make_checks(CHECKS, (), {})]
    assert [job.name for job in with_needs(jobs, ["lint"])] == ["lint"]
    assert [job.name for job in with_needs(jobs, ["vm-boot"])] == ["kernel", "machine-inputs", "vm-boot"]


def test_a_check_waits_for_the_one_whose_machines_it_begins_with() -> None:
    inputs = {"vm-upgrade": ["/nix/store/kernel.drv", "/nix/store/vm-boot.drv"]}
    bases = find_bases(CHECKS, inputs)
    assert bases == {"vm-upgrade": ["vm-boot"]}
    jobs = {job.name: job for job in make_checks(CHECKS, (), bases)}
    assert jobs["vm-upgrade"].needs == ("fetch", "machine-inputs", "vm-boot")
    assert jobs["vm-boot"].needs == ("fetch", "machine-inputs")


def test_one_suite_of_nodes_runs_beside_one_machine() -> None:
    jobs = {job.name: job for job in [*make_checks(CHECKS, (), {}), *(suite.job for suite in SUITES)]}
    waiting = [jobs[name] for name in ("node", "cluster", "kubernetes", "vm-boot", "vm-upgrade", "vm-slow")]
    done = {need for job in waiting for need in job.needs}
    capacity = Capacity(processors=PROCESSOR_SHARE * 2, memory=20_000)
    chosen = choose(sort_by_urgency(waiting), [], done, capacity)
    assert {job.name for job in chosen} == {"cluster", "vm-upgrade"}


def test_names_choose_jobs_and_unknown_ones_are_refused() -> None:
    jobs = [*BUILDS, *make_checks(CHECKS, (), {})]
    assert choose_names(jobs, []) == list(CHECKS)
    assert choose_names(jobs, ["lint", "kernel"]) == ["lint", "kernel"]
    with pytest.raises(ValueError, match=r"no such job: lnit; there are: kernel, .*lint"):
        choose_names(jobs, ["lnit"])
