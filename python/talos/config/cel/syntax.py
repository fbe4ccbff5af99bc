"""Expressions in CEL as syntax trees.

The part of the language that configs use: literals, lists, maps, fields, indices, operators, calls, and the
macros ``has``, ``all``, ``exists``, ``exists_one``, ``filter``, ``map``.
"""

from dataclasses import dataclass

INT_RANGE = range(-(2**63), 2**63)
UINT_RANGE = range(2**64)


class CelError(ValueError):
    """A mistake in an expression, and ``place``: its character, counted from 1."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


class UInt(int):
    """An unsigned number: CEL keeps both kinds apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A bool, int, UInt, float, str, or None."""

    value: bool | int | float | str | None
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A variable or a constant of the environment."""

    name: str
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """``operand.name``; with ``test`` it is ``has(operand.name)``."""

    operand: "Node"
    name: str
    place: int
    test: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """An operator, a function, or (with ``target``) a method, by its name in CEL such as ``_&&_``."""

    function: str
    arguments: tuple["Node", ...]
    place: int
    target: "Node | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """``[a, b]``."""

    items: tuple["Node", ...]
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """``{key: value}``."""

    entries: tuple[tuple["Node", "Node"], ...]
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comprehension:
    """``items.exists(variable, body)`` and the like; ``macro`` is its name."""

    macro: str
    items: "Node"
    variable: str
    body: "Node"
    place: int


type Node = Literal | Name | Field | Apply | ListOf | MapOf | Comprehension

MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})
