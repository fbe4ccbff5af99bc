"""Rules at work: which of them hold for a device, and what they make of it."""

import grp
import pwd
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from talos.config.udev_rules import PARENT_MATCHES, Item, Rule, substitutions
from talos.system.errors import UserError
from talos.system.sysfs import SysDevice
from talos.udevd.permissions import GROUPS, USERS

_UNSAFE = re.compile(r"[^A-Za-z0-9#+\-.:=@_/\\]")


@dataclass(slots=True, kw_only=True)
class Wishes:
    """What shall become of a device; rules change it. Links are relative to ``/dev``."""

    env: dict[str, str] = field(default_factory=dict[str, str])
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    links: dict[str, int] = field(default_factory=dict[str, int])
    """Link to priority: of several devices that want one, the highest has it."""
    writes: dict[str, str] = field(default_factory=dict[str, str])
    """Attributes to write."""
    problems: list[str] = field(default_factory=list[str])
    final: set[str] = field(default_factory=set[str])


def apply_rules(rules: Iterable[Rule], device: SysDevice, wishes: Wishes, action: str) -> None:
    """Let every rule that holds change the wishes, in their order."""
    for rule in rules:
        parent = _find_match(rule, device, wishes.env, action)
        if parent is not None:
            _assign(rule, device, parent, wishes)


def _find_match(rule: Rule, device: SysDevice, env: Mapping[str, str], action: str) -> SysDevice | None:
    """The device that the tests of parents hold for: one for all of them; None when a test fails."""
    own = [item for item in rule.tests if item.key not in PARENT_MATCHES]
    above = [item for item in rule.tests if item.key in PARENT_MATCHES]
    if not all(_holds(item, device, env, action) for item in own):
        return None
    if not above:
        return device
    for candidate in device.lineage:
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


def _assign(rule: Rule, device: SysDevice, parent: SysDevice, wishes: Wishes) -> None:
    priority = 0
    for item in rule.assignments:
        if item.key == "OPTIONS":
            priority = int(item.value.partition("=")[2])
    for item in rule.assignments:
        if item.key in wishes.final:
            continue
        value = substitute(item.value, device, parent, wishes.env)
        match item.key:
            case "MODE":
                wishes.mode = int(value, 8)
            case "OWNER":
                wishes.uid = _resolve(value, USERS, "user", rule, wishes)
            case "GROUP":
                wishes.gid = _resolve(value, GROUPS, "group", rule, wishes)
            case "ENV":
                wishes.env[item.name] = value
            case "ATTR":
                wishes.writes[item.name] = value
            case "SYMLINK":
                if item.operator != "+=":
                    wishes.links.clear()
                for link in value.split():
                    wishes.links[_UNSAFE.sub("_", link)] = priority
            case _:
                pass
        if item.operator == ":=":
            wishes.final.add(item.key)


def substitute(text: str, device: SysDevice, parent: SysDevice, env: Mapping[str, str]) -> str:
    """Fill in what the rule refers to; a device's words can't add links or leave a folder."""
    uevent: Mapping[str, str] | None = None
    parts: list[str] = []
    for word, argument in substitutions(text):
        if word in {"major", "minor"}:
            uevent = uevent or device.uevent
            parts.append(uevent.get(word.upper(), "0"))
            continue
        match word:
            case "":
                parts.append(argument)
            case "kernel":
                parts.append(device.kernel_name)
            case "number":
                parts.append(re.search(r"\d*$", device.kernel_name)[0])  # pyright: ignore[reportOptionalSubscript] - matches always
            case "devpath":
                parts.append(device.path)
            case "id":
                parts.append(parent.kernel_name)
            case "driver":
                parts.append(parent.driver)
            case "devnode":
                parts.append(f"/dev/{device.uevent.get('DEVNAME', device.kernel_name)}")
            case "sys":
                parts.append("/sys")
            case "root":
                parts.append("/dev")
            case "env":
                parts.append(_tame(env.get(argument, "")))
            case _:
                found = device.attribute(argument) or parent.attribute(argument)
                parts.append(_tame(found))
    return "".join(parts)


def _tame(text: str) -> str:
    return re.sub(r"[\s/]+", "_", text.strip())


def _resolve(value: str, known: Mapping[str, int], what: str, rule: Rule, wishes: Wishes) -> int | None:
    try:
        return resolve(value, known, what, rule.place)
    except UserError as error:
        wishes.problems.append(str(error))
        return None


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
