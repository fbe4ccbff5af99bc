"""The Makefile's recipes: what each fetches, with its prerequisites, and what it builds of the flake."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

RULE = re.compile(r"^(?P<name>[a-z][a-z-]*):(?!=)(?P<prerequisites>[^#\n]*)(?:##.*)?$")
VARIABLE = re.compile(r"^([A-Z_]+) :?= (.*)$", re.MULTILINE)
FETCH = re.compile(r"pkgs/fetch fetch(?P<roots>(?: [a-z-]+)+)")
INSTALLABLE = re.compile(r"[.]\\?#(?P<name>[a-z][a-z0-9-]*)")
CHECK = re.compile(r"[$][(]CHECK[)][.](?P<name>[a-z][a-z0-9-]*)(?![a-z0-9-]*[$%])")
CHECKS = re.compile(r"[$][(](?P<variable>[A-Z_]+):%=[$][(]CHECK[)][.]vm-%[)]")
ALL = "--all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A target. ``roots`` are its own ones and those of its prerequisites, names as they are in the recipe.

    ``installables`` are packages or apps, ``checks`` names of checks, ``variables`` hold lists of tests on
    virtual machines that it builds.
    """

    name: str
    roots: frozenset[str]
    installables: tuple[str, ...]
    checks: tuple[str, ...]
    variables: tuple[str, ...]


def read_recipes(makefile: str) -> Iterator[Recipe]:
    """Every target with a recipe or prerequisites."""
    lines = re.sub(r"\\\n\s*", " ", makefile).splitlines()
    prerequisites: dict[str, list[str]] = {}
    recipes: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if line.startswith("\t"):
            recipes.setdefault(name, []).append(line)
        elif rule := RULE.match(line):
            name = rule["name"]
            prerequisites.setdefault(name, []).extend(rule["prerequisites"].split())
    for target in prerequisites:
        text = "\n".join(recipes.get(target, []))
        before = ("\n".join(recipes.get(other, [])) for other in _find_all(target, prerequisites))
        yield Recipe(
            name=target,
            roots=frozenset(
                root for each in before for found in FETCH.finditer(each) for root in found["roots"].split()
            ),
            installables=tuple(found["name"] for found in INSTALLABLE.finditer(text)),
            checks=tuple(found["name"] for found in CHECK.finditer(text)),
            variables=tuple(found["variable"] for found in CHECKS.finditer(text)),
        )


def read_words(makefile: str, variable: str) -> list[str]:
    """The words of a variable; none of one that is not there."""
    found = dict(VARIABLE.findall(re.sub(r"\\\n\s*", " ", makefile)))
    return found.get(variable, "").split()


def _find_all(target: str, prerequisites: dict[str, list[str]]) -> set[str]:
    found, left = {target}, [target]
    while left:
        new = set(prerequisites.get(left.pop(), ())) - found
        found |= new
        left += new
    return found
