"""Which files `make check` gives to the type checker: those that were changed, and those that import them.

What a function takes and returns is annotated, so a change concerns its file and those that use it. What lies
further away, by a type that is inferred twice, `make types` and `make test` find.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.run.process import REPOSITORY

FOLDERS = (
    "python",
    "tests",
    "nixos-tests",
    "pkgs/cves",
    "pkgs/dist",
    "pkgs/fetch",
    "kernel/hardening",
    "modules/sbom",
)
"""What is checked; `pyproject.toml` names the same."""
PACKAGES = (*FOLDERS[:1], *FOLDERS[2:])
"""Folders that are import roots; the tests are a package of their own, `tests`."""
EVERYTHING = ("pyproject.toml", "pkgs/locks/wheels-dev.txt")
"""What changes how all files are checked, and files that modules are generated from."""
MAX_FILES = 300
"""A fifth of all. Of more the whole tree is checked."""
GENERATED = "_pb2"


def find_typed(changed: Iterable[str], repository: Path = REPOSITORY) -> list[str] | None:
    """The files to check after a change of these, none to check nothing; None for the whole tree."""
    changed = list(changed)
    if any(path in EVERYTHING or path.endswith(".proto") for path in changed):
        return None
    names = {path: name for path in changed if (name := find_module(path))}
    if not names:
        return []
    found = {path for path in names if (repository / path).exists()}
    importing = make_pattern(names.values())
    for path in list_files(repository):
        relative = str(path.relative_to(repository))
        if relative not in found and importing.search(path.read_text(encoding="utf-8")):
            found.add(relative)
    return sorted(found) if len(found) <= MAX_FILES else None


def find_module(path: str) -> str:
    """The name by which a file of what is checked is imported; empty for any other."""
    if not path.endswith(".py") or not any(Path(path).is_relative_to(folder) for folder in FOLDERS):
        return ""
    roots = [root for root in PACKAGES if Path(path).is_relative_to(root)]
    parts = Path(path).relative_to(roots[0] if roots else ".").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def make_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """What a file has that imports one of these modules: its whole name, or its own one from its package."""
    return re.compile("|".join(map(_make_pattern, sorted(names))), re.MULTILINE)


def _make_pattern(name: str) -> str:
    package, _, own = name.rpartition(".")
    above = rf"(?:{re.escape(package)}|\.+)" if package else r"\.+"
    return (
        rf"^\s*(?:from|import) {re.escape(name)}\b"
        rf"|^\s*from {above} import (?:\([^)]*|[^(\n]*)\b{re.escape(own)}\b"
        rf"|^\s*from \.+{re.escape(own)} import\b"
    )


def list_files(repository: Path) -> Iterator[Path]:
    """All files that are checked."""
    for folder in FOLDERS:
        for path in (repository / folder).rglob("*.py"):
            if not path.stem.endswith(GENERATED):
                yield path
