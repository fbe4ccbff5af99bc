"""The lock files: what a build may use, each with its hash."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import FetchError

PKGS = Path(__file__).resolve().parent.parent
REPOSITORY = PKGS.parent
SCRATCH = REPOSITORY / "build" / "fetch"
DEBIAN = PKGS / "locks" / "debian.json"
WHEELS = {name: PKGS / "locks" / f"wheels-{name}.txt" for name in ("image", "tools")}

WHEEL_LINE = re.compile(
    r"(?P<name>[^=\s]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})  # (?P<file>\S+)"
)
WHEEL_HEAD = "# Written by `make lock` from roots.toml. The comment is the file's name.\n"


@dataclass(frozen=True)
class Input:
    """One file from outside. `recursive`: the hash is of a tree, with its x bits, not of plain content."""

    store_name: str
    sha256: str
    recursive: bool = False


@dataclass(frozen=True)
class Wheel:
    """One line of a wheels lock."""

    name: str
    version: str
    sha256: str
    file: str


def legal(file: str) -> str:
    """Give a file a name the Nix store takes; pkgs/inputs.nix does the same."""
    return file.replace("%3a", "-").replace("~", "-")


def read_roots() -> dict[str, Any]:
    """Read what was asked for."""
    return tomllib.loads((PKGS / "roots.toml").read_text())


def read_debian() -> dict[str, Any]:
    """Read the Debian lock: packages by name, roots as lists of names."""
    return json.loads(DEBIAN.read_text())


def write_debian(lock: dict[str, Any]) -> None:
    """Write the Debian lock, sorted, so that a difference shows what changed."""
    lock = {**lock, "packages": dict(sorted(lock["packages"].items()))}
    DEBIAN.write_text(json.dumps(lock, indent=1) + "\n")


def read_wheels() -> dict[str, list[Wheel]]:
    """Read the wheels of each set."""
    return {
        name: [
            Wheel(**match.groupdict())
            for match in map(WHEEL_LINE.fullmatch, path.read_text().splitlines())
            if match
        ]
        for name, path in WHEELS.items()
    }


def write_wheels(sets: dict[str, list[Wheel]]) -> None:
    """Write each set as a requirements file that pip accepts with --require-hashes."""
    for name, found in sets.items():
        lines = [
            f"{w.name}=={w.version} --hash=sha256:{w.sha256}  # {w.file}\n"
            for w in sorted(found, key=lambda w: w.name)
        ]
        WHEELS[name].write_text(WHEEL_HEAD + "".join(lines))


def packages_of(lock: dict[str, Any], on_demand: Iterable[str]) -> list[str]:
    """Name the packages of every root that is always fetched, and of these that are not."""
    roots = read_roots()["debian"]["roots"]
    unknown = set(on_demand) - roots.keys()
    if unknown:
        raise FetchError(f"no such root: {', '.join(sorted(unknown))}; known: {', '.join(sorted(roots))}")
    chosen = {name for name, asked in roots.items() if not asked.get("on_demand")} | set(on_demand)
    return sorted({package for root in chosen for package in lock["roots"].get(root, ())})


def inputs_of(on_demand: Iterable[str]) -> list[Input]:
    """Everything the locks name, with these roots that are only fetched on demand."""
    lock = read_debian()
    entries = [lock["packages"][name] for name in packages_of(lock, on_demand)]
    found = [Input(legal(entry["file"]), entry["sha256"]) for entry in entries]
    found += [Input(wheel.file, wheel.sha256) for wheels in read_wheels().values() for wheel in wheels]
    found.append(Input("bootstrap", lock["bootstrap"]["sha256"], recursive=True))
    return found
