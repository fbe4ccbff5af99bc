"""Rows as a table for people, or as JSON and YAML for programs."""

import json
import re
from collections.abc import Iterable, Sequence

from talos.talosctl.output import console
from talos.talosctl.output.table import GrowingTable, format_table


def format_rows(output: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or a list with an object for each row: its keys are the titles, its values the cells."""
    if output == "table":
        return format_table([header, *rows])
    return format_documents(output, make_objects(header, rows))


def format_line(output: str, header: Sequence[str], row: Sequence[str]) -> str:
    """One row of a list without an end: a line of JSON, or a document of YAML."""
    [value] = make_objects(header, [row])
    if output == "json":
        return json.dumps(value, ensure_ascii=False) + "\n"
    from talos.talosctl.output.yaml_text import dump_yaml

    return "---\n" + dump_yaml(value)


class RowStream:
    """Shows rows as they come; ``widths`` are those of :class:`GrowingTable`."""

    def __init__(self, output: str, header: Sequence[str], widths: Sequence[int]) -> None:
        self._output, self._header = output, header
        self._table = GrowingTable(header, widths)

    def show(self, row: Sequence[str]) -> None:
        """Show one at once."""
        is_table = self._output == "table"
        console.write(self._table.add([row]) if is_table else format_line(self._output, self._header, row))
        console.flush()


def format_documents(output: str, documents: Sequence[object]) -> str:
    """A list of what JSON can hold, as ``json`` or ``yaml``."""
    if output == "json":
        return json.dumps(documents, indent=4, ensure_ascii=False) + "\n"
    from talos.talosctl.output.yaml_text import dump_yaml

    return dump_yaml(documents)


def make_objects(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """The rows with ``LAST CHANGE`` as ``lastChange``."""
    names = [make_key(title) for title in header]
    return [dict(zip(names, row, strict=False)) for row in rows]


def make_key(title: str) -> str:
    """A column's title as a key."""
    first, *rest = re.findall(r"[A-Za-z0-9]+", title) or [title]
    return first.lower() + "".join(word.capitalize() for word in rest)
