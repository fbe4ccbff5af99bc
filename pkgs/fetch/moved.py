"""An archive that has moved on: what differs between two locks, as a table and as one line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from locks import DEBIAN, REPOSITORY, read_debian
from report import log

SHOWN = 3


class Change(NamedTuple):
    """A package's versions in two locks; "-" where one lacks it."""

    name: str
    old: str
    new: str


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """List the packages that differ."""

    def version(lock: Mapping[str, Any], name: str) -> str:
        return lock["packages"].get(name, {}).get("version", "-")

    def sha256(lock: Mapping[str, Any], name: str) -> str:
        return lock["packages"].get(name, {}).get("sha256", "")

    names = sorted(old["packages"].keys() | new["packages"].keys())
    return [
        Change(name, version(old, name), version(new, name))
        for name in names
        if sha256(old, name) != sha256(new, name)
    ]


def summary(changes: list[Change]) -> str:
    """Name the first changes in one line."""
    shown = ", ".join(f"{change.name} {change.old} -> {change.new}" for change in changes[:SHOWN])
    return shown + (f" and {len(changes) - SHOWN} more" if len(changes) > SHOWN else "")


def table(changes: list[Change]) -> list[str]:
    """Format the changes as aligned lines."""
    rows = [Change("PACKAGE", "LOCKED", "NOW"), *changes]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [f"  {row.name:{first}}  {row.old:{second}}  {row.new}" for row in rows]


def log_changes(head: str, changes: list[Change]) -> None:
    """Log the table below its headline."""
    log(f"fetch: {head}")
    for line in table(changes):
        log(line)


def uncommitted() -> list[Change]:
    """Compare the lock with the commit's; nothing differs where this is no checkout."""
    name = DEBIAN.relative_to(REPOSITORY).as_posix()
    shown = subprocess.run(
        ["git", "-C", str(REPOSITORY), "show", f"HEAD:./{name}"], capture_output=True, check=False
    )
    return compare(json.loads(shown.stdout), read_debian()) if shown.returncode == 0 else []


def warn_uncommitted() -> None:
    """Log that what is built is not what is committed."""
    if changes := uncommitted():
        log(
            f"fetch: WARNING: the locks are not the commit's: {summary(changes)}; "
            "`git diff pkgs/locks` has all, `git checkout pkgs/locks` goes back"
        )
