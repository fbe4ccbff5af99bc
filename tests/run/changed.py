"""The jobs of `make check`: linters of the whole work tree; types, unit tests, links of what was changed."""

import os
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

from tests.run.job import Job
from tests.run.jobs import BUILDS
from tests.run.process import REPOSITORY
from tests.run.typed import find_module, find_typed, make_pattern

WORKSTATION = "build/workstation"
PYTHON = f"{WORKSTATION}/bin/python3.13"
UNIT = "tests/unit"
MIRRORS = {
    "python/talos": UNIT,
    "pkgs/checks": f"{UNIT}/checks",
    "pkgs/cves": f"{UNIT}/cves",
    "pkgs/dist": f"{UNIT}/dist",
    "pkgs/fetch": f"{UNIT}/fetch",
    "nixos-tests/driver": f"{UNIT}/vm_driver",
    "kernel/hardening": f"{UNIT}/kernel",
    "tests/run": f"{UNIT}/run",
    "tests/harness": f"{UNIT}/harness",
    "tests/bench": f"{UNIT}/bench",
    "docs/examples": f"{UNIT}/config/documents",
    "Makefile": f"{UNIT}/fetch/test_makefile.py",
    "docs/network.md": f"{UNIT}/networkd/test_docs.py",
    "modules/rootfs/files": f"{UNIT}/process",
}
"""Where the tests are of what lies in a folder. Below it, tests mirror modules."""
SHARED = ("tests/conftest.py", "tests/data", "pyproject.toml")
"""What all unit tests use."""
MAX_IMPORTING = 20
"""Files of tests that import a changed module. Those of one that more import are left to `make test`."""
SITE = ("nix", "build", ".#site", "--no-link", "--print-build-logs")
"""Fails when a page's links lead nowhere."""
PYTEST = (PYTHON, "-B", "-m", "pytest", "--numprocesses=2", "--dist=loadfile", "--durations=20")


def find_changed(base: str = "") -> list[str]:
    """Files that differ from a commit, new ones included; from what was pushed last unless one is given."""
    base = base or _git("merge-base", "HEAD", "@{upstream}", may_fail=True).strip() or "HEAD"
    differing = _git("diff", "--name-only", "-z", base) + _git(
        "ls-files", "-z", "--others", "--exclude-standard"
    )
    return sorted({name for name in differing.split("\0") if name})


def find_unit_tests(changed: Iterable[str], repository: Path = REPOSITORY) -> list[str]:
    """The files and folders of unit tests that mirror these files: the deepest there is."""
    found = set[str]()
    for path in changed:
        if any(Path(path).is_relative_to(shared) for shared in SHARED):
            return [UNIT]
        mirror = _mirror(path)
        if mirror is None:
            continue
        while not (repository / mirror).exists():
            mirror = mirror.parent
        found.add(str(mirror))
    return _drop_contained(found)


def find_importing(changed: Iterable[str], repository: Path = REPOSITORY) -> list[str]:
    """The files of unit tests that import these modules: tests of other packages expect their texts, too."""
    texts = {
        str(path.relative_to(repository)): path.read_text(encoding="utf-8")
        for path in (repository / UNIT).rglob("test_*.py")
    }
    found = set[str]()
    for name in filter(None, map(find_module, changed)):
        pattern = make_pattern([name])
        importing = {path for path, text in texts.items() if pattern.search(text)}
        if len(importing) <= MAX_IMPORTING:
            found |= importing
    return sorted(found)


def _drop_contained(paths: Collection[str]) -> list[str]:
    return sorted(path for path in paths if not any(str(above) in paths for above in Path(path).parents))


def _mirror(path: str) -> Path | None:
    if Path(path).is_relative_to(UNIT):
        is_test = Path(path).name.startswith("test_")
        return Path(path) if is_test else Path(path).parent
    for source, mirror in MIRRORS.items():
        if Path(path).is_relative_to(source):
            inner = Path(path).relative_to(source).parent
            return Path(mirror, inner) if path != source else Path(mirror)
    return None


def make_check_jobs(base: str = "") -> list[Job]:
    """Everything runs in the work tree: what git has not seen yet is checked, too.

    The type checker sees what was changed, and what imports that.
    """
    programs = [str(REPOSITORY / WORKSTATION / folder) for folder in ("bin", "sbin")]
    environment = {
        "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
        "PYTHONPATH": "python",
        "NO_COLOR": "1",
    }

    def job(
        name: str, *command: str, processors: float = 1.0, minutes: float = 0.1, memory: int = 500
    ) -> Job:
        return Job(
            name=name,
            command=command,
            needs=("api", "devenv", "peers"),
            processors=processors,
            minutes=minutes,
            memory=memory,
            environment=environment,
        )

    changed = find_changed(base)
    tested = _drop_contained({*find_unit_tests(changed), *find_importing(changed)})
    typed = find_typed(changed)
    checker = (PYTHON, "-B", "-m", "basedpyright", "--pythonpath", PYTHON, *(typed or ()))
    return [
        *(build for build in BUILDS if build.name in ("api", "devenv", "peers")),
        *([] if typed == [] else [job("types", *checker, minutes=1, memory=2000)]),
        *([job("site", *SITE)] if any(path.endswith(".md") for path in changed) else []),
        job("lint", "ruff", "check"),
        job("format", "ruff", "format", "--check"),
        job("layers", PYTHON, "-B", "tests/lint/layers.py"),
        job("grants", PYTHON, "-B", "tests/lint/grants.py", "--check"),
        job("references", PYTHON, "-B", "tests/lint/references.py", "--check"),
        job("names", PYTHON, "-B", "tests/lint/names.py"),
        job("words", PYTHON, "-B", "tests/lint/words.py"),
        *([job("unit", *PYTEST, *tested, processors=1.6, memory=3000)] if tested else []),
    ]


def _git(*arguments: str, may_fail: bool = False) -> str:
    done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode and not may_fail:
        raise ValueError(done.stderr.strip())
    return done.stdout
