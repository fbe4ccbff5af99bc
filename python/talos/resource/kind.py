"""Resource kinds: a type's names, its namespace, and the message of its spec."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeIs, TypeVar

from google.protobuf.message import Message

from talos.api.tables import read_table

S_co = TypeVar("S_co", bound=Message, covariant=True)
"""A spec's message. Covariant: a reader of any message reads this one; PEP 695 would infer invariance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintColumn:
    """A column of ``talosctl get``: its title and a JSONPath over the spec."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[S_co]):  # noqa: UP046 - see S_co
    """One resource type, as registered in ``api/resources.tsv``; ``own_sensitivity.tsv`` hides more."""

    spec: type[S_co]
    type: str
    namespace: str
    display_type: str
    aliases: tuple[str, ...]
    all_aliases: tuple[str, ...]
    sensitive: bool
    is_yaml_only: bool
    """Upstream has no message for the spec: it travels as YAML, beside empty protobuf bytes."""
    columns: tuple[PrintColumn, ...]

    def choose_namespace(self, namespace: str | None) -> str:
        """The given namespace, else the kind's own."""
        return self.namespace if namespace is None else namespace


@functools.cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    return {row["type"]: row for row in read_table("resources.tsv")}


@functools.cache
def _hidden() -> frozenset[str]:
    return frozenset(row["type"] for row in read_table("own_sensitivity.tsv"))


def make_kind[T: Message](type: str, spec: type[T]) -> Kind[T]:
    """The kind of a registered type; the table must name the same message for the spec."""
    row = _rows()[type]
    expected = row["spec_message"]
    is_yaml_only = expected.startswith("(none: YAML only")
    if expected.startswith("("):
        expected = "google.protobuf.Struct" if is_yaml_only else "google.protobuf.Empty"
    if spec.DESCRIPTOR.full_name != expected:
        raise TypeError(f"{type} has the spec {expected}, not {spec.DESCRIPTOR.full_name}")
    return Kind(
        type=type,
        namespace=row["default_namespace"],
        spec=spec,
        display_type=row["display_type"],
        aliases=_words(row["explicit_aliases"]),
        all_aliases=(*_words(row["explicit_aliases"]), *_words(row["computed_aliases"])),
        sensitive=row["sensitivity"] == "sensitive" or type in _hidden(),
        is_yaml_only=is_yaml_only,
        columns=_columns(row["print_columns"]),
    )


def is_kind(value: object) -> TypeIs[Kind[Message]]:
    """Whether something is a kind."""
    return isinstance(value, Kind)


def _words(cell: str) -> tuple[str, ...]:
    return tuple(name for name in cell.split(",") if name)


def _columns(cell: str) -> tuple[PrintColumn, ...]:
    pairs = (column.split("=", 1) for column in cell.split(" | ") if column)
    return tuple(PrintColumn(name=name, path=path) for name, path in pairs)
