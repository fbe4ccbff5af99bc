"""The nodes of a YAML text with their places, and the values that they stand for."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from talos.config.problem import Mark


@dataclass(slots=True)
class ScalarNode:
    """A text. ``plain`` means that it was written without quotes and may be a number or a boolean."""

    value: str
    mark: Mark
    plain: bool
    weight: int = 1
    size: int = 0
    depth: int = 0


@dataclass(slots=True)
class SequenceNode:
    """A list."""

    mark: Mark
    items: list["Node"] = field(default_factory=list["Node"])
    weight: int = 1
    size: int = 0
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge key, and whether its value is an alias: upstream takes no other one in a mapping of a type."""

    mark: Mark
    is_alias: bool


@dataclass(slots=True)
class MappingNode:
    """A mapping in the order of the text, with what its merge key adds; ``duplicates`` are repeated keys."""

    mark: Mark
    entries: dict[str, tuple[Mark, "Node"]] = field(default_factory=dict[str, tuple[Mark, "Node"]])
    duplicates: list[tuple[str, Mark]] = field(default_factory=list[tuple[str, Mark]])
    merge: Merge | None = None
    weight: int = 1
    size: int = 0
    depth: int = 1


type Node = ScalarNode | SequenceNode | MappingNode
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
"""Texts without quotes that stand for no value."""
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_MAX_INTEGER = 128  # characters; 64 bits in any notation, underscores included
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def is_null(node: Node) -> bool:
    """Whether the value is empty."""
    return isinstance(node, ScalarNode) and node.plain and node.value in NULLS


def resolve(node: ScalarNode) -> str | int | float | bool | None:
    """The value of a scalar whose type is not declared."""
    text = node.value
    if not node.plain:
        return text
    if text in NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    number = parse_integer(text)
    if number is not None:
        return number
    fraction = float(text) if _FLOAT.fullmatch(text) else math.inf
    return fraction if math.isfinite(fraction) else text


def parse_integer(text: str) -> int | None:
    """An integer in one of the notations of YAML 1.1 and 1.2, ``0644`` and ``0o644`` both octal."""
    if len(text) > _MAX_INTEGER or not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-").replace("_", "")
    sign = -1 if text.startswith("-") else 1
    try:
        if len(digits) > 1 and digits[0] == "0":
            return sign * (int(digits, 0) if digits[1] in "box" else int(digits, 8))
        return sign * int(digits)
    except ValueError:
        return None


def plain(node: Node) -> Any:
    """The node as dicts, lists and scalars; of duplicate keys the first."""
    match node:
        case ScalarNode():
            return resolve(node)
        case SequenceNode():
            return [plain(item) for item in node.items]
        case MappingNode():
            return {key: plain(value) for key, (_, value) in node.entries.items()}
