"""TOML for containerd: the standard library reads it, this writes it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from talos.system.errors import UserError

MAX_DEPTH = 32
"""Levels of tables and lists in what a user writes; containerd's own have six."""

MAX_DOTS = 512
"""In a line, and so in a key: the standard library takes time by the square of a key's parts."""

type Table = Mapping[str, Any]


def merge(base: Table, over: Table, path: str = "") -> dict[str, Any]:
    """One table over another: tables are merged, lists appended, everything else is replaced; as upstream.

    UserError for a value of another type than that below it; ``path`` is where the tables are.
    """
    merged = dict(base)
    for key, value in over.items():
        old, place = merged.get(key), f"{path}{key}"
        if old is None:
            merged[key] = value
        elif _is_table(old) and _is_table(value):
            merged[key] = merge(_table(old), _table(value), f"{place}.")
        elif type(old) is not type(value):
            raise UserError(f"{place} has another type than before: {value!r:.80} in place of {old!r:.80}")
        else:
            merged[key] = [*old, *value] if isinstance(old, list) else value
    return merged


def parse_toml(text: str) -> Table:
    """A table; UserError."""
    import tomllib  # few configs have any

    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MAX_DOTS:
            raise UserError(f"line {number} has more than {MAX_DOTS} dots")
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"it is no TOML: {error}") from None
    level: list[object] = [table]
    for _ in range(MAX_DEPTH):
        level = [item for value in level for item in _list_items(value)]
        if not level:
            return table
    raise UserError(f"its tables are nested more than {MAX_DEPTH} levels deep")


def _list_items(value: object) -> Sequence[object]:
    if isinstance(value, dict):
        return tuple(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else ()


def format_toml(table: Table) -> str:
    """A table as TOML; values are texts, numbers, booleans, lists of these, and tables."""
    return "\n".join(_format_table(table, ())) + "\n"


def _format_table(table: Table, path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not _is_table(value)}
    if path and (plain or not table):
        yield f"\n[{'.'.join(map(_quote, path))}]"
    for key, value in plain.items():
        yield f"{_quote(key)} = {_format_value(value)}"
    for key, value in table.items():
        if _is_table(value):
            yield from _format_table(_table(value), (*path, key))


def _format_value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(_format_value(item) for item in cast('list[object]', value))}]"
        case dict():
            items = cast("dict[str, object]", value).items()
            return "{" + ", ".join(f"{_quote(key)} = {_format_value(item)}" for key, item in items) + "}"
        case _:
            return _quote(str(value), bare=False)


def _quote(text: str, *, bare: bool = True) -> str:
    if bare and text and text.isascii() and text.replace("_", "").replace("-", "").isalnum():
        return text
    # JSON's escapes are among those of TOML, which has no DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _table(value: object) -> Table:
    return cast("Table", value)
