"""Evaluation of rules: which of them match a device, and their assignments."""

import grp
import pwd
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from talos.config.udev_rules import PARENT_MATCHES, Item, Rule, substitutions
from talos.system.block.sysfs import SysDevice
from talos.system.errors import UserError
from talos.udevd.permissions import GROUPS, USERS

_UNSAFE = re.compile(r"[^A-Za-z0-9#+\-.:=@_/\\]")


@dataclass(slots=True, kw_only=True)
class Assignments:
    """The assignments for a device, modified by rules. Links are relative to ``/dev``."""

    env: dict[str, str] = field(default_factory=dict[str, str])
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    links: dict[str, int] = field(default_factory=dict[str, int])
    """Link to priority: of several devices that claim one, the highest priority has it."""
    writes: dict[str, str] = field(default_factory=dict[str, str])
    """Attributes to write."""
    problems: list[str] = field(default_factory=list[str])
    final: set[str] = field(default_factory=set[str])


def apply_rules(rules: Iterable[Rule], device: SysDevice, assignments: Assignments, action: str) -> None:
    """Apply every matching rule to the assignments, in order."""
    for rule in rules:
        parent = _find_match(rule, device, assignments.env, action)
        if parent is not None:
            _assign(rule, device, parent, assignments)


def _find_match(rule: Rule, device: SysDevice, env: Mapping[str, str], action: str) -> SysDevice | None:
    """The one parent that all tests of parents match; None when there is none."""
    own = [item for item in rule.tests if item.key not in PARENT_MATCHES]
    above = [item for item in rule.tests if item.key in PARENT_MATCHES]
    if not all(_holds(item, device, env, action) for item in own):
        return None
    if not above:
        return device
    for candidate in device.with_parents:
        if all(_holds(item, candidate, env, action) for item in above):
            return candidate
    return None


def _holds(item: Item, device: SysDevice, env: Mapping[str, str], action: str) -> bool:
    match item.key:
        case "ACTION":
            text = action
        case "DEVPATH":
            text = device.path
        case "KERNEL" | "KERNELS":
            text = device.kernel_name
        case "SUBSYSTEM" | "SUBSYSTEMS":
            text = device.subsystem
        case "DRIVER" | "DRIVERS":
            text = device.driver
        case "ENV":
            text = env.get(item.name, "")
        case _:
            # An attribute that isn't there passes no test, not even that it differs.
            if not device.has(item.name):
                return False
            text = device.attribute(item.name)
            if not item.value.endswith((" ", "\t")):
                text = text.rstrip()
    found = any(fnmatchcase(text, pattern) for pattern in item.value.split("|"))
    return found == (item.operator == "==")


def _assign(rule: Rule, device: SysDevice, parent: SysDevice, assignments: Assignments) -> None:
    options = (item.value for item in rule.assignments if item.key == "OPTIONS")
    priority = max((int(option.partition("=")[2]) for option in options), default=0)
    for item in rule.assignments:
        if item.key in assignments.final:
            continue
        value = substitute(item.value, device, parent, assignments.env)
        if item.key in {"MODE", "OWNER", "GROUP"}:
            _assign_permission(rule, item, value, assignments)
        elif item.key == "ENV":
            assignments.env[item.name] = value
        elif item.key == "ATTR":
            assignments.writes[item.name] = value
        elif item.key == "SYMLINK":
            if item.operator != "+=":
                assignments.links.clear()
            assignments.links |= dict.fromkeys((_UNSAFE.sub("_", link) for link in value.split()), priority)
        if item.operator == ":=":
            assignments.final.add(item.key)


def _assign_permission(rule: Rule, item: Item, value: str, assignments: Assignments) -> None:
    try:
        match item.key:
            case "MODE":
                assignments.mode = int(value, 8)
            case "OWNER":
                assignments.uid = resolve(value, USERS, "user", rule.place)
            case _:
                assignments.gid = resolve(value, GROUPS, "group", rule.place)
    except UserError as error:
        assignments.problems.append(str(error))


def substitute(text: str, device: SysDevice, parent: SysDevice, env: Mapping[str, str]) -> str:
    """Fill in what the rule refers to; a device's texts can't add links or leave a folder."""
    values: Mapping[str, Callable[[str], str]] = {
        "": lambda literal: literal,
        "kernel": lambda _: device.kernel_name,
        "number": lambda _: device.kernel_name[len(device.kernel_name.rstrip("0123456789")) :],
        "devpath": lambda _: device.path,
        "id": lambda _: parent.kernel_name,
        "driver": lambda _: parent.driver,
        "devnode": lambda _: f"/dev/{device.uevent.get('DEVNAME', device.kernel_name)}",
        "major": lambda _: device.uevent.get("MAJOR", "0"),
        "minor": lambda _: device.uevent.get("MINOR", "0"),
        "sys": lambda _: "/sys",
        "root": lambda _: "/dev",
        "env": lambda name: _replace_unsafe(env.get(name, "")),
        "attr": lambda name: _replace_unsafe(device.attribute(name) or parent.attribute(name)),
    }
    return "".join(values[word](argument) for word, argument in substitutions(text))


def _replace_unsafe(text: str) -> str:
    return re.sub(r"[\s/]+", "_", text.strip())


def resolve(value: str, known: Mapping[str, int], what: str, place: str) -> int:
    """The number of a user or group; UserError when the node has none of that name."""
    if value.isdigit():
        return int(value)
    if value in known:
        return known[value]
    try:
        return grp.getgrnam(value).gr_gid if what == "group" else pwd.getpwnam(value).pw_uid
    except KeyError:
        hint = f"give its number, or one of {', '.join(known)}"
        raise UserError(f'there is no {what} "{value}" on the node', where=place, hint=hint) from None
