"""Resource kinds: what a type is called, where it lives, which message its spec is."""

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from google.protobuf.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintColumn:
    """A column of ``talosctl get``: its title and a JSONPath over the spec."""

    name: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind[S: Message]:
    """One resource type, as registered in ``api/resources.tsv``."""

    spec: type[S]
    type: str
    namespace: str
    display_type: str
    aliases: tuple[str, ...]
    all_aliases: tuple[str, ...]
    sensitive: bool
    columns: tuple[PrintColumn, ...]


@functools.cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    text = files("talos.api").joinpath("resources.tsv").read_text(encoding="utf-8")
    return {
        row["type"]: row for row in csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    }


def make_kind[S: Message](type: str, spec: type[S]) -> Kind[S]:
    """The kind of a registered type; the table must agree about the spec's message."""
    row = _rows()[type]
    expected = row["spec_message"].removeprefix("(empty spec)") or "google.protobuf.Empty"
    if spec.DESCRIPTOR.full_name != expected:
        raise TypeError(f"{type} has the spec {expected}, not {spec.DESCRIPTOR.full_name}")
    return Kind(
        type=type,
        namespace=row["default_namespace"],
        spec=spec,
        display_type=row["display_type"],
        aliases=_words(row["explicit_aliases"]),
        all_aliases=(*_words(row["explicit_aliases"]), *_words(row["computed_aliases"])),
        sensitive=row["sensitivity"] == "sensitive",
        columns=_columns(row["print_columns"] or ""),
    )


def _words(cell: str) -> tuple[str, ...]:
    return tuple(word for word in cell.split(",") if word)


def _columns(cell: str) -> tuple[PrintColumn, ...]:
    pairs = (column.split("=", 1) for column in cell.split(" | ") if column)
    return tuple(PrintColumn(name=name, path=path) for name, path in pairs)
