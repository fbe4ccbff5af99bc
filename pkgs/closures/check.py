"""Compare what the flake's derivations are made of with what the documented commands bring into the store.

$targets (passed as a file) has the .drv file of each package, check and app; the commands are those in $page
and in the recipes of $makefile. Inputs from outside are found by reading .drv files, so nothing is built.
Success makes $out.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import locks
from recipes import ALL as ALL_ROOTS
from recipes import Recipe, read_recipes, read_words
from store import store_path

OUTPUT = re.compile(r'\("[^"]*","(?P<path>[^"]+)","(?P<algorithm>[^"]*)","[^"]*"\)')
INPUT = re.compile(r'\("(?P<file>/nix/store/[^"]+[.]drv)",\[')
BUILDER = re.compile(r'"/missing input [^:"]+: run `(?P<command>[^`]+)`')
ROW = re.compile(r"^\| (?P<cell>.+?) \| .* \| `(?P<command>make fetch[^`]*)` \|$", re.MULTILINE)
INSTALLABLE = re.compile(r"[.]#([a-z0-9-]+)")
ALL = "make fetch ALL=1"
OWN_WHEELS = {
    "dev": re.compile(r"packages\.workstation|shells\..*|checks\.(?!vm-).*"),
    "site": re.compile(r"packages\.site|checks\.(site|pages)"),
}
"""What may be made with wheels that no other set has: a newer linter rebuilds no image."""


@cache
def read(file: str) -> tuple[dict[str, str], list[str]]:
    """Read one .drv file: what is from outside, with the command that brings it, and its input .drv files."""
    text = Path(file).read_text(encoding="utf-8")
    outputs, rest = text.split("],[", 1)
    inputs = [match["file"] for match in INPUT.finditer(rest.split(")],[", 1)[0])]
    fixed = [match["path"] for match in OUTPUT.finditer(outputs) if match["algorithm"]]
    if not fixed:
        return {}, inputs
    if not (builder := BUILDER.search(text)):
        raise SystemExit(f"{file} is a fixed output that names no command")
    return dict.fromkeys(fixed, builder["command"]), inputs


def find_inputs(file: str) -> dict[str, str]:
    """Find every input from outside below a .drv file, and the command that its error names."""
    found: dict[str, str] = {}
    seen, left = {file}, [file]
    while left:
        fixed, inputs = read(left.pop())
        found |= fixed
        left += [other for other in inputs if other not in seen]
        seen.update(inputs)
    return found


@cache
def brought_by(command: str) -> frozenset[str]:
    """Return the store paths that a `make fetch` command brings."""
    words = command.removeprefix("make fetch").replace('"', "").split()
    return paths_of(
        frozenset([ALL_ROOTS] if words == ["ALL=1"] else [word.removeprefix("ROOTS=") for word in words])
    )


@cache
def paths_of(words: frozenset[str]) -> frozenset[str]:
    """Return the store paths of roots and groups, and of what is always fetched."""
    roots = locks.on_demand_names() if ALL_ROOTS in words else locks.expand(words)
    return frozenset(store_path(item) for item in locks.inputs_of(roots))


def check(name: str, file: str, command: str) -> list[str]:
    """Return what a command leaves out of a target."""
    left_out = sorted(find_inputs(file).keys() - brought_by(command))
    if not left_out:
        return []
    return [f"{name}: `{command}` does not bring {len(left_out)} inputs, such as {left_out[0]}"]


def check_page(text: str, targets: dict[str, dict[str, str]]) -> list[str]:
    """Hold each row of the table of commands in docs/build.md."""
    rows = [*ROW.finditer(text)]
    if not rows:
        raise SystemExit("docs/build.md: no row names its `make fetch`")
    problems: list[str] = []
    for row in rows:
        names = INSTALLABLE.findall(row["cell"])
        known = targets["apps"] | targets["packages"]
        files = {name: known[name] for name in names if name in known}
        if "nix flake check" in row["cell"]:
            files |= targets["checks"]
        problems += [f"docs/build.md: there is no .#{name}" for name in names if name not in files]
        for name, file in files.items():
            problems += check(f"docs/build.md: {name}", file, row["command"])
    return problems


def check_makefile(text: str, targets: dict[str, dict[str, str]]) -> list[str]:
    """Hold each target of the Makefile: it fetches what it builds."""
    slow = {f"vm-{name}" for name in read_words(text, "SLOW_VM_TESTS")}
    quick = {name for name in targets["checks"] if name not in slow}
    kept = set(read_words(text, "NOT_REBUILT"))
    problems = [
        f"Makefile: NOT_REBUILT: there is no .#{name}" for name in sorted(kept - targets["packages"].keys())
    ]
    recipes = [*read_recipes(text)]
    if not any(recipe.roots and recipe.installables for recipe in recipes):
        raise SystemExit("Makefile: no recipe is understood")
    for recipe in recipes:
        if recipe.name == "reproducible":
            recipe = replace(recipe, installables=tuple(targets["packages"].keys() - kept))
        for name, file in find_files(recipe, targets, slow, quick):
            if left_out := sorted(find_inputs(file).keys() - paths_of(recipe.roots)):
                what = f"{len(left_out)} inputs of {name}, such as {left_out[0]}"
                problems.append(f"Makefile: {recipe.name} does not fetch {what}")
    return problems


def find_files(
    recipe: Recipe, targets: dict[str, dict[str, str]], slow: set[str], quick: set[str]
) -> Iterator[tuple[str, str]]:
    """Return what a target of the Makefile builds, with its .drv files."""
    built = {name: (targets["packages"] | targets["apps"]).get(name) for name in recipe.installables}
    checks = {*recipe.checks} - {"closures"}  # this one
    for variable in recipe.variables:
        checks |= slow if variable == "SLOW_VM_TESTS" else {name for name in quick if name.startswith("vm-")}
    if recipe.name == "test-inputs":
        checks |= quick
    built |= {name: targets["checks"].get(name) for name in checks}
    for name, file in built.items():
        if not file:
            raise SystemExit(f"Makefile: {recipe.name} builds {name}, which the flake does not have")
        yield name, file


def check_errors(name: str, file: str) -> list[str]:
    """Hold the commands that the errors of a target's inputs name: together they bring all of it."""
    found = find_inputs(file)
    brought = frozenset[str]().union(*map(brought_by, {"make fetch", *found.values()}))
    return [f"{name}: no error names a command that brings {path}" for path in sorted(found.keys() - brought)]


def check_wheels(name: str, file: str) -> list[str]:
    """Find wheels that only tests and linters, or the documentation's site, need in a target that is none."""
    problems: list[str] = []
    wheels, inputs = locks.read_wheels(), find_inputs(file).keys()
    paths = {
        each: {store_path(locks.Input(w.file, w.sha256)): w.name for w in wheels[each]} for each in wheels
    }
    for own, allowed in OWN_WHEELS.items():
        others = {path for other, found in paths.items() if other != own for path in found}
        found = sorted(paths[own][path] for path in inputs & (paths[own].keys() - others))
        if found and not allowed.fullmatch(name):
            problems.append(f"{name}: is made with {', '.join(found)}, which are in the set {own} alone")
    return problems


def main() -> None:
    """Check all and fail with every problem."""
    targets: dict[str, dict[str, str]] = json.loads(Path(os.environ["targetsPath"]).read_text())
    problems = check_page(Path(os.environ["page"]).read_text(), targets)
    problems += check_makefile(Path(os.environ["makefile"]).read_text(), targets)
    for kind, files in targets.items():
        for name, file in files.items():
            whole = f"{kind}.{name}"
            problems += check(whole, file, ALL) + check_errors(whole, file) + check_wheels(whole, file)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    Path(os.environ["out"]).write_text(f"{sum(map(len, targets.values()))} targets\n", encoding="utf-8")


main()
