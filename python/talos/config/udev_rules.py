"""The part of udev's rules language that nodes understand; docs/devices.md describes it.

parse_rules(['SUBSYSTEM=="drm", KERNEL=="renderD*", MODE="0660"'])

A rule is a line of comma separated tests and assignments. What starts a program is refused: there
is none on a node that a rule could start. Nothing is ignored silently.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from talos.system.errors import UserError

TESTS = frozenset({"==", "!="})
_ITEM = re.compile(
    r'\s*([A-Z_]+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*(e?)"((?:[^"\\]++|\\.)*+)"\s*(,?)\s*'
)
_START = re.compile(r"\s*([A-Za-z_]+)")
_SUBSTITUTION = re.compile(r"\$(\$|attr\{[^}]+\}|env\{[^}]+\}|[a-z]+)|%(%|[sE]\{[^}]+\}|.?)")
_LETTERS = {
    "k": "kernel",
    "n": "number",
    "p": "devpath",
    "b": "id",
    "M": "major",
    "m": "minor",
    "N": "devnode",
    "S": "sys",
    "r": "root",
}
_NAMES = frozenset({*_LETTERS.values(), "driver"})

MATCHES = frozenset({"ACTION", "DEVPATH", "KERNEL", "SUBSYSTEM", "DRIVER", "ATTR", "ENV"})
PARENT_MATCHES = frozenset({"KERNELS", "SUBSYSTEMS", "DRIVERS", "ATTRS"})
_WITH_NAME = frozenset({"ATTR", "ATTRS", "ENV"})
_ASSIGNMENTS = {
    "OWNER": {"=", ":="},
    "GROUP": {"=", ":="},
    "MODE": {"=", ":="},
    "SYMLINK": {"+=", "=", ":="},
    "ENV": {"="},
    "ATTR": {"="},
    "OPTIONS": {"=", "+="},
}
_NO_PROGRAMS = "there are no programs on a node that a rule could start"
_REFUSED = {
    "RUN": f"{_NO_PROGRAMS}: write to sysfs by ATTR{{name}}=",
    "PROGRAM": _NO_PROGRAMS,
    "RESULT": _NO_PROGRAMS,
    "IMPORT": f"{_NO_PROGRAMS}; what it usually imports is in ENV already",
    "NAME": "interfaces are named before the config is read: use a LinkAliasConfig",
    "GOTO": "rules have no labels: repeat the tests in each rule",
    "LABEL": "rules have no labels: repeat the tests in each rule",
    "TAG": "nothing on a node reads tags",
    "TAGS": "nothing on a node reads tags",
    "SECLABEL": "labels are the image's",
    "SYSCTL": "use a SysctlConfig",
    "TEST": "use ATTR{name}",
    "CONST": "the config is for one machine: leave the test out",
    "WAIT_FOR": "obsolete",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A test or an assignment: ``ATTR{queue/rotational}=="0"``."""

    key: str
    name: str = ""
    operator: str
    value: str

    @property
    def is_test(self) -> bool:
        """Whether it is a test, not an assignment."""
        return self.operator in TESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The assignments of a rule whose tests all match. ``place`` is its place in the config."""

    place: str
    tests: tuple[Item, ...]
    assignments: tuple[Item, ...]


def parse_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """The rules of a config's list. UserError for the first invalid one."""
    return tuple(rule for index, text in enumerate(texts) for rule in _parse_text(index, text))


def _parse_text(index: int, text: str) -> Iterator[Rule]:
    """An entry of the list may have several lines; a backslash at the end joins two."""
    lines = text.split("\n")
    begin, pending = 1, ""
    for number, line in enumerate(lines, 1):
        if not pending:
            begin = number
        if pending == "" and line.lstrip().startswith("#"):
            continue
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        whole, pending = pending + line, ""
        if whole.strip():
            yield _parse_rule(whole, f"rules[{index}]" + (f" line {begin}" if len(lines) > 1 else ""))
    if pending.strip():
        yield _parse_rule(pending, f"rules[{index}] line {begin}")


def _parse_rule(line: str, place: str) -> Rule:
    at, items = 0, list[Item]()
    while at < len(line):
        found = _ITEM.match(line, at)
        if found is None:
            raise _explain_syntax(line, at, place)
        key, name, operator, prefix, value, _ = found.groups()
        if prefix:
            raise UserError(f'e"..." is not supported: {found[0].strip()}', where=place, hint='use "..."')
        item = Item(key=key, name=name or "", operator=operator, value=value.replace('\\"', '"'))
        _check_item(item, place)
        items.append(item)
        at = found.end()
    tests = tuple(item for item in items if item.is_test)
    assignments = tuple(item for item in items if not item.is_test)
    if not assignments:
        raise UserError(f"assigns nothing: {line.strip()}", where=place, hint='such as MODE="0660"')
    return Rule(place=place, tests=tests, assignments=assignments)


def _explain_syntax(line: str, at: int, place: str) -> UserError:
    rest = line[at:].strip()
    start = _START.match(rest)
    if start is not None and start[1] in _REFUSED:
        return UserError(f"{start[1]} is not supported: {_REFUSED[start[1]]}", where=place)
    return UserError(
        f"can't be read from column {at + 1} on: {rest}", where=place, hint='KEY=="value", KEY="value"'
    )


def _check_item(item: Item, place: str) -> None:
    key = item.key
    if key in _REFUSED:
        raise UserError(f"{key} is not supported: {_REFUSED[key]}", where=place)
    if key not in MATCHES | PARENT_MATCHES | _ASSIGNMENTS.keys():
        known = ", ".join(sorted(MATCHES | PARENT_MATCHES | _ASSIGNMENTS.keys()))
        raise UserError(f"{key} is unknown", where=place, hint=f"one of {known}")
    if (key in _WITH_NAME) != bool(item.name):
        form = f'{key}{{name}}{item.operator}"..."' if key in _WITH_NAME else f'{key}{item.operator}"..."'
        raise UserError(f"{key} is written as {form}", where=place)
    if item.is_test:
        if key not in MATCHES | PARENT_MATCHES:
            raise UserError(f"{key} can't be tested, only assigned", where=place, hint=f'{key}="..."')
        return
    operators = _ASSIGNMENTS.get(key)
    if operators is None:
        raise UserError(f"{key} can't be assigned, only tested", where=place, hint=f'{key}=="..."')
    if item.operator not in operators:
        allowed = " or ".join(sorted(operators))
        raise UserError(f"{key} can't be assigned with {item.operator}", where=place, hint=f"use {allowed}")
    _check_value(item, place)


def _check_value(item: Item, place: str) -> None:
    if item.key == "MODE" and not re.fullmatch(r"0?[0-7]{3}", item.value):
        raise UserError(f'MODE="{item.value}" is no mode', where=place, hint='octal, such as "0660"')
    if item.key == "OPTIONS" and not re.fullmatch(r"link_priority=-?\d+", item.value):
        raise UserError(f'OPTIONS "{item.value}" is not supported', where=place, hint="link_priority=NUMBER")
    if item.key == "SYMLINK":
        for link in item.value.split():
            if link.startswith("/") or ".." in link.split("/"):
                raise UserError(f'SYMLINK "{link}" leaves /dev', where=place, hint="relative to /dev")
    if item.key == "ATTR" and (item.name.startswith("/") or ".." in item.name.split("/")):
        raise UserError(f"ATTR{{{item.name}}} leaves the device", where=place, hint="relative to its folder")
    for found in _SUBSTITUTION.finditer(item.value):
        name = parse_substitution(found)
        if name.partition("{")[0] not in _NAMES | {"attr", "env", "$", "%"}:
            raise UserError(
                f"{found[0]} in {item.key} is not supported", where=place, hint="see docs/devices.md"
            )


def substitutions(text: str) -> Iterator[tuple[str, str]]:
    """The parts of a text: ``("", literal)`` or ``(name, argument)`` such as ``("attr", "size")``."""
    at = 0
    for found in _SUBSTITUTION.finditer(text):
        yield "", text[at : found.start()]
        name, _, argument = parse_substitution(found).partition("{")
        yield ("", name) if name in {"$", "%"} else (name, argument.rstrip("}"))
        at = found.end()
    yield "", text[at:]


def parse_substitution(found: re.Match[str]) -> str:
    """The long form of a substitution: ``%k`` is ``kernel``, ``%s{size}`` is ``attr{size}``."""
    name, letter = found[1], found[2]
    if name is not None:
        return name
    if letter[:2] == "s{":
        return f"attr{letter[1:]}"
    if letter[:2] == "E{":
        return f"env{letter[1:]}"
    return _LETTERS.get(letter, letter if letter == "%" else f"%{letter}")
