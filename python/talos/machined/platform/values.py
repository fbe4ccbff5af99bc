"""Checks of values in documents that come with a machine; UserError with the place of what is wrong."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from talos.config.problem import ConfigError
from talos.config.read.nodes import plain
from talos.config.read.tree import parse_documents
from talos.system.decimals import parse_decimal
from talos.system.errors import UserError

MAX_ITEMS = 1024
"""Of one list or mapping: a text of aliases can stand for more than there is memory."""
MAX_TEXT = 1024
"""Characters of a name or another short text."""
_SWITCHES: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
"""The words of YAML 1.1."""
_LINK_NAME = re.compile(r"(?!\.{1,2}$)[^\s/:%\x00-\x20]{1,15}")

type Fields = Mapping[str, Any]


def read_json(data: bytes, where: str) -> object:
    """What a text in JSON stands for; None for an empty one."""
    if not data.strip():
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UserError("this is no JSON", where=where) from None


def read_yaml(data: str | bytes, where: str) -> object:
    """What the first document of a text in YAML stands for; None for an empty one.

    It is read as config files are: within bounds, and 52:54:00:12:00:01 is a text, no number to base 60.
    """
    try:
        documents = parse_documents(data)
    except ConfigError as error:
        raise UserError(f"this is no YAML: {error}".replace("\n", " ")[:200], where=where) from None
    return plain(documents[0]) if documents else None


def as_fields(value: object, where: str) -> Fields:
    """A mapping."""
    if not isinstance(value, dict):
        raise UserError("a mapping is expected here", where=where)
    found = cast("dict[str, Any]", value)
    if len(found) > MAX_ITEMS:
        raise UserError(f"more than {MAX_ITEMS} entries", where=where)
    return found


def read_fields(data: bytes, where: str) -> Fields:
    """The mapping that a text in JSON stands for; an empty text is an empty one."""
    value = read_json(data, where)
    return {} if value is None else as_fields(value, where)


def read_items(data: bytes, where: str) -> list[Fields]:
    """The list of mappings that a text in JSON stands for."""
    return items_of(read_json(data, where), where)


def part_of(value: object, where: str) -> Fields:
    """A mapping within a document; an empty one when it is missing."""
    return {} if value is None else as_fields(value, where)


def items_of(value: object, where: str) -> list[Fields]:
    """A list of mappings within a document."""
    return [as_fields(item, f"{where}[{index}]") for index, item in enumerate(as_list(value, where))]


def as_list(value: object, where: str) -> list[Any]:
    """A list; one value alone is one of its own, nothing is an empty one."""
    if value is None:
        return []
    found = cast("list[Any]", value) if isinstance(value, list) else [value]
    if len(found) > MAX_ITEMS:
        raise UserError(f"more than {MAX_ITEMS} entries", where=where)
    return found


def parse_value[T](parse: Callable[[], T], where: str) -> T:
    """What ``parse`` makes of a value; its ValueError is a UserError."""
    try:
        return parse()
    except ValueError as error:
        raise UserError(str(error)[:200], where=where) from None


def as_number(value: object, limits: tuple[int, int], where: str) -> int:
    """A number, or its text, between two others."""
    text = str(value) if isinstance(value, int | str) else ""
    return parse_value(partial(parse_decimal, text, *limits), where)


def as_switch(value: object, where: str) -> bool:
    """Whether something is on: ``true``, or a word that stands for it; nothing is off."""
    found = (
        False if value is None else value if isinstance(value, bool) else _SWITCHES.get(str(value).lower())
    )
    if found is None:
        raise UserError(f"{str(value)[:20]!r} is neither true nor false", where=where)
    return found


def is_link_name(text: str) -> bool:
    """Whether a link can have this name."""
    return _LINK_NAME.fullmatch(text) is not None


def check_link_name(text: str, where: str) -> str:
    """A name that a link can have."""
    if not is_link_name(text):
        hint = "at most 15 characters, without blanks, slashes and colons"
        raise UserError(f"{text[:30]!r} is no link's name", where=where, hint=hint)
    return text


def as_text(value: object, where: str) -> str:
    """A short text on one line; that of a number are its digits, and nothing is an empty one."""
    text = "" if value is None else str(value).strip() if _is_text(value) else "\n"
    if len(text) > MAX_TEXT or not text.isprintable():
        raise UserError("a short text is expected here", where=where)
    return text


def _is_text(value: object) -> bool:
    """Whether this is a text, or a number, which some clouds have in place of one."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def text_in(fields: Fields, name: str, where: str) -> str:
    """A short text within a mapping; empty when it is missing."""
    return as_text(fields.get(name), f"{where}.{name}")
