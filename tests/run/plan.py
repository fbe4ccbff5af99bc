"""What a run has to do, and what is not repeated because nothing of it has changed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tests.run.job import Job, Outcome, State, with_needs
from tests.run.jobs import BUILDS, COMMON, MACHINE, SUITES, Suite, make_checks, make_machine_inputs
from tests.run.log import read_log
from tests.run.nix import Check, evaluate, find_inputs, find_valid
from tests.run.nix import read_log as read_build_log
from tests.run.stamps import make_key, read_stamp, write_stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The jobs that follow on what was fetched."""

    jobs: tuple[Job, ...]
    unchanged: tuple[Outcome, ...]
    paths: Mapping[str, str]
    """Of the flake's packages, in the store."""
    keys: Mapping[str, str]
    """What a suite's pass is remembered with, by its job's name."""


def make_plan(*, wanted: Sequence[str], without: Collection[str], may_skip: bool, stamps: Path) -> Plan:
    """List what the flake has, and what of it the store has.

    ``wanted`` are names of jobs, none for all tests but those ``without``. Suites that passed with the same
    inputs are repeated unless the run ``may_skip`` them; checks that are in the store never are. Raises
    ValueError for a name that is unknown, NixError for a flake with errors.
    """
    checks, paths = evaluate(sorted({name for suite in SUITES for name in suite.packages}))
    left_out = set(without) - set(wanted)
    machines = [name for name in checks if name.startswith(MACHINE) and name not in left_out]
    inputs = {name: find_inputs(checks[name].derivation) for name in machines}
    check_jobs = make_checks(checks, left_out, find_bases(checks, inputs))
    built_by_checks = {check.derivation for check in checks.values()}
    jobs = [
        *BUILDS,
        make_machine_inputs(sorted(set(chain.from_iterable(inputs.values())) - built_by_checks)),
        *check_jobs,
        *(suite.job for suite in SUITES),
    ]
    chosen = choose_names(jobs, wanted)
    keys = {suite.job.name: make_suite_key(suite, paths) for suite in SUITES if suite.job.name in chosen}
    valid = find_valid([check.output for check in checks.values()])
    unchanged = [
        _make_unchanged(job, checks[job.name])
        for job in check_jobs
        if job.name in chosen and checks[job.name].output in valid
    ]
    if may_skip:
        found = [
            read_stamp(suite.job, keys[suite.job.name], stamps) for suite in SUITES if suite.job.name in keys
        ]
        unchanged += [outcome for outcome in found if outcome is not None]
    done = {outcome.job.name for outcome in unchanged}
    return Plan(
        jobs=tuple(with_needs(jobs, [name for name in chosen if name not in done])),
        unchanged=tuple(unchanged),
        paths=paths,
        keys=keys,
    )


def find_bases(checks: Mapping[str, Check], inputs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """By the name of a check those that it is built from; ``inputs`` are the derivations."""
    names = {check.derivation: name for name, check in checks.items()}
    return {name: [names[each] for each in found if each in names] for name, found in inputs.items()}


def choose_names(jobs: Sequence[Job], wanted: Sequence[str]) -> list[str]:
    """The names of the jobs to run: those wanted, or all tests. ValueError is for the user."""
    known = [job.name for job in jobs]
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"no such job: {', '.join(unknown)}; there are: {', '.join(known)}")
    return list(wanted) or [job.name for job in jobs if job.is_test]


def make_suite_key(suite: Suite, paths: Mapping[str, str]) -> str:
    """A digest of all that a suite is made of now."""
    return make_key(suite.job, {name: paths[name] for name in suite.packages}, (*COMMON, *suite.sources))


def remember(outcomes: Sequence[Outcome], plan: Plan, stamps: Path) -> None:
    """Write down which suites have passed, unless their sources were edited meanwhile."""
    by_name = {suite.job.name: suite for suite in SUITES}
    for outcome in outcomes:
        name = outcome.job.name
        if outcome.state is not State.PASSED or name not in plan.keys:
            continue
        if make_suite_key(by_name[name], plan.paths) == plan.keys[name]:
            write_stamp(outcome, plan.keys[name], stamps)


def _make_unchanged(job: Job, check: Check) -> Outcome:
    log = read_log(read_build_log(check.derivation), is_test=True, has_passed=True)
    return Outcome(job=job, state=State.UNCHANGED, reason="in the store", counts=log.counts)
