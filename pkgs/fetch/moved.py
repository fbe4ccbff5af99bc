"""What differs between two states of the locks, as a table and as one line; what that builds anew."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from locks import DEBIAN, REPOSITORY, read_debian, read_go, read_wheels
from report import FetchError, log, run

SHOWN = 3
PACKAGES = ".#packages.x86_64-linux"
DERIVATIONS = "builtins.mapAttrs (_: package: builtins.unsafeDiscardStringContext package.drvPath)"


class Change(NamedTuple):
    """A package's versions in two locks; "-" where one lacks it."""

    name: str
    old: str
    new: str


class Locked(NamedTuple):
    """What is locked of a package, wheel or module: its versions, and what distinguishes equal ones."""

    version: str
    digest: str


NOTHING = Locked("-", "")


def read_debian_versions(lock: Mapping[str, Any]) -> dict[str, Locked]:
    """List the packages of a lock of Debian's."""
    return {name: Locked(entry["version"], entry["sha256"]) for name, entry in lock["packages"].items()}


def read_versions() -> dict[str, Locked]:
    """List what all locks have: packages, wheels and Go modules."""
    found = read_debian_versions(read_debian())
    several: dict[str, dict[str, str]] = {}
    for wheels in read_wheels().values():
        for wheel in wheels:
            several.setdefault(f"{wheel.name} (wheel)", {})[wheel.version] = wheel.sha256
    for module in read_go().modules.values():
        several.setdefault(module.path, {})[module.version] = module.zip
    for name, versions in several.items():
        found[name] = Locked(", ".join(sorted(versions)), " ".join(sorted(versions.values())))
    return found


def compare(old: Mapping[str, Locked], new: Mapping[str, Locked]) -> list[Change]:
    """List what differs."""
    return [
        Change(name, old.get(name, NOTHING).version, new.get(name, NOTHING).version)
        for name in sorted(old.keys() | new.keys())
        if old.get(name, NOTHING).digest != new.get(name, NOTHING).digest
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
    if shown.returncode:
        return []
    return compare(read_debian_versions(json.loads(shown.stdout)), read_debian_versions(read_debian()))


def warn_uncommitted() -> None:
    """Log that what is built is not what is committed."""
    if changes := uncommitted():
        log(
            f"fetch: WARNING: the locks are not the commit's: {summary(changes)}; "
            "`git diff pkgs/locks` has all, `git checkout pkgs/locks` goes back"
        )


def read_derivations() -> dict[str, str]:
    """Return the derivation of each package of the flake, as the locks are now, without building any.

    Empty where the flake can't be evaluated, which is logged.
    """
    flakes = ["--extra-experimental-features", "nix-command flakes"]
    try:
        text = run(["nix", *flakes, "eval", "--json", PACKAGES, "--apply", DERIVATIONS], cwd=REPOSITORY)
    except (FetchError, OSError) as error:
        reasons = [line for line in str(error).splitlines() if "error:" in line] or [str(error)]
        log(f"fetch: what is built anew is not known: {reasons[-1].strip()}")
        return {}
    return json.loads(text)


def log_rebuilt(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Log which packages of the flake have other derivations."""
    if old and new:
        names = sorted(name for name in new if old.get(name) != new[name])
        listed = ", ".join(names) or "none"
        log(f"fetch: {len(names)} of {len(new)} packages of the flake are built anew: {listed}")
