"""The jobs of `make test`: the checks of the flake, which lists their names, and what needs root, a row each.

Minutes, processors and memory are those of a whole run on two processors: what a job took, what it used on
average, and at most. They decide about order and neighbours alone: a check without such a row is run, too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.run.job import Job
from tests.run.nix import Check

MACHINE = "vm-"
"""What checks on virtual machines are called."""
COMPILER = frozenset({"compiler"})
"""Two that compile at once gain nothing, and need twice the memory."""
NODES = frozenset({"nodes"})
"""A suite waits for its nodes now and then, and its tests have time limits: beside it runs one machine, whose
tests wait longer when processors are busy, and no second suite."""


def make(target: str) -> tuple[str, ...]:
    """The argv that makes one target whose prerequisites other jobs have made."""
    made = (word for done in TARGETS if done != target for word in ("-o", done))
    return ("make", "--no-print-directory", *made, target)


TARGETS = (
    "tools", "fetch", "vm-inputs", "build", "images", "all-images", "upgrade-controller", "extended", "peers",
    "api", "devenv", "root-unit",
)  # fmt: skip
"""Targets of the Makefile that are prerequisites of others: each is a job, or a part of the job `fetch`."""

RUN_PAGES = (
    "docs/devices.md", "docs/disaster-recovery.md", "docs/first-cluster.md", "docs/load-balancing.md",
    "docs/moving-from-talos.md", "docs/scaling.md", "docs/talosctl.md", "docs/time.md",
    "docs/troubleshooting.md",
)  # fmt: skip
"""Pages whose commands that only read are run on a cluster with Kubernetes."""

FETCH = Job(name="fetch", command=("make", "--no-print-directory", "test-inputs"), is_test=False, minutes=3)
"""The first job: what can be built depends on what was fetched."""

# What has to be built for the suites below. A build's own work is in the store when nothing has changed.
BUILDS = (
    # What compiles is nice: it takes what the others leave.
    Job(name="kernel", command=make("kernel"), needs=("fetch",), processors=0.5, memory=3000, minutes=50,
        exclusive=COMPILER, nice=10, is_test=False, is_shown=False, limit=180),
    Job(name="all-images", command=make("all-images"), needs=("fetch",), processors=0.5, memory=3500,
        minutes=10.5, exclusive=COMPILER, nice=10, is_test=False, is_shown=False, limit=180),
    Job(name="build", command=make("build"), needs=("fetch",), minutes=1, is_test=False),
    Job(name="images", command=make("images"), needs=("fetch",), minutes=1, memory=1500, is_test=False),
    Job(name="extended", command=make("extended"), needs=("build",), processors=0.5, minutes=0.5,
        is_test=False),
    Job(name="upgrade-controller", command=make("upgrade-controller"), needs=("fetch",), processors=0.5,
        minutes=0.2, is_test=False),
    Job(name="peers", command=make("peers"), needs=("fetch",), processors=0.2, minutes=0.1, is_test=False),
    Job(name="api", command=make("api"), needs=("fetch",), processors=0.2, minutes=0.1, is_test=False),
    Job(name="devenv", command=make("devenv"), needs=("fetch",), processors=0.2, minutes=0.1, is_test=False),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests that need root, run by pytest in the work tree, and what they depend on."""

    job: Job
    packages: tuple[str, ...]
    """Of the flake; what is stamped with the commit is left out, and its ingredients are in ``sources``."""
    sources: tuple[str, ...]
    """Files and folders of the repository."""


COMMON = (
    "Makefile", "VERSION", "python", "pyproject.toml", "modules", "pkgs/keys", "tests/conftest.py",
    "tests/harness", "tests/data", "nixos-tests/driver",
)  # fmt: skip
PYTEST = {"PYTEST_ADDOPTS": "--color=no -v -v --durations=60 --durations-min=1"}
"""A line for each test, and which were the longest."""

SUITES = (
    Suite(
        job=Job(name="root-unit", command=make("root-unit"), processors=0.3, minutes=4, environment=PYTEST,
            needs=("api", "devenv", "peers")),
        packages=("workstation", "api", "root-peers"),
        sources=("tests/unit", "docs/examples", "kernel", "pkgs"),
    ),
    Suite(
        job=Job(name="node", command=make("node"), processors=0.8, minutes=5, memory=1500, exclusive=NODES,
            environment=PYTEST, needs=("build", "images", "api", "devenv", "peers")),
        packages=("squashfs", "images", "workstation", "api", "root-peers"),
        sources=("tests/node", "docs/examples"),
    ),
    Suite(
        job=Job(name="cluster", command=make("cluster-tests"), processors=0.8, minutes=18, memory=3000,
            exclusive=NODES, environment=PYTEST,
            needs=("build", "images", "extended", "api", "devenv", "peers")),
        packages=("squashfs", "images", "extended", "workstation", "api", "root-peers"),
        sources=("tests/cluster",),
    ),
    Suite(
        job=Job(name="kubernetes", command=make("kubernetes-tests"), processors=0.8, minutes=16, memory=4000,
            exclusive=NODES, environment=PYTEST,
            needs=("build", "all-images", "upgrade-controller", "api", "devenv")),
        packages=("squashfs", "images-all", "kubectl", "upgrade-controller-image", "workstation", "api"),
        sources=("tests/kubernetes", *RUN_PAGES),
    ),
    Suite(
        job=Job(name="netboot", command=make("netboot-tests"), processors=1.0, minutes=10, memory=5000,
            environment=PYTEST, needs=("machine-inputs", "build", "images", "api", "devenv", "peers")),
        packages=("squashfs", "kernel", "root-vm", "images", "workstation", "api", "root-peers"),
        sources=("tests/netboot", "tests/cluster", "tests/kubernetes", "tests/unit/upgrade", "kernel"),
    ),
)  # fmt: skip

# Checks of the flake that are known to differ from the rest; names may begin like these.
CHECKS = {
    "unit": Job(name="", command=(), processors=0.8, minutes=1.7, memory=1500),
    "unit-2": Job(name="", command=(), processors=0.8, minutes=4.3, memory=1500),
    "unit-docs": Job(name="", command=(), minutes=0.1),
    "protocols": Job(name="", command=(), processors=0.1, minutes=1.3),
    "pages": Job(name="", command=(), minutes=0.5, memory=1500),
    "types": Job(name="", command=(), minutes=1.4, memory=2000),
    "kernel-hardening": Job(name="", command=(), minutes=1),
    # A machine has one processor, beside which QEMU and the machine's clients use little.
    MACHINE: Job(name="", command=(), memory=2500, minutes=3),
    "vm-boot": Job(name="", command=(), memory=2500, minutes=1.3),
    "vm-nocloud": Job(name="", command=(), memory=2500, minutes=1),
    "vm-boot-failures": Job(name="", command=(), memory=2500, minutes=0.5),
    "vm-upgrade": Job(name="", command=(), memory=2500, minutes=7.5),
    "vm-upgrade-uefi": Job(name="", command=(), memory=2500, minutes=6),
    "vm-reset": Job(name="", command=(), memory=2500, minutes=7.5),
    "vm-power-cut-upgrade": Job(name="", command=(), memory=2500, minutes=6.3),
    "vm-disk-image": Job(name="", command=(), memory=2500, minutes=5.2),
    "vm-extensions": Job(name="", command=(), memory=2500, minutes=1.3),
    # Three machines, which wait for one another.
    "vm-base-cluster": Job(name="", command=(), processors=2.0, memory=7000, minutes=6),
    "vm-cluster": Job(name="", command=(), processors=2.0, memory=7000, minutes=10),
}


def make_checks(
    checks: Mapping[str, Check], without: Collection[str], bases: Mapping[str, Sequence[str]]
) -> list[Job]:
    """A job for each check of the flake but those ``without`` which it runs.

    ``bases`` are, by a check's name, the checks whose machines it begins with.
    """
    return [
        replace(
            CHECKS[max((known for known in CHECKS if name.startswith(known)), key=len)]
            if any(name.startswith(known) for known in CHECKS)
            else Job(name="", command=(), processors=0.5, minutes=0.2),
            name=name,
            command=("nix", "build", check.derivation, "--no-link", "--print-build-logs"),
            needs=("fetch", "machine-inputs", *bases.get(name, ()))
            if name.startswith(MACHINE)
            else ("fetch",),
        )
        for name, check in checks.items()
        if name not in without
    ]


def make_machine_inputs(derivations: Sequence[str]) -> Job:
    """What the tests on machines are built from: once, before the first of them."""
    command = ("nix-store", "--realise", *derivations) if derivations else ("true",)
    return Job(
        name="machine-inputs",
        command=command,
        needs=("kernel",),
        processors=0.5,
        minutes=1,
        memory=2500,
        is_test=False,
        is_shown=False,
    )
