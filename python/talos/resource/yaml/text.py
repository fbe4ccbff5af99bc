"""YAML as upstream's encoder writes it: four spaces, plain scalars where they are safe.

A general YAML emitter takes milliseconds for a spec; every answer of the State holds one.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeIs

type Value = str | bool | int | float | Sequence[Value] | Mapping[str, Value] | None

_PLAIN = re.compile(r"[A-Za-z0-9_/.][^\x00-\x1f\x7f-\xa0\ufeff\u2028\u2029]*")
_NUMBER_OR_TIME = re.compile(r"[.0-9][-+.:_,0-9A-Fa-fxXoOnNiTtZz ]*")
_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "."})
_BLOCK = re.compile(r"[^ \t\n\x00-\x1f][^\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\u2028\u2029]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def to_yaml(value: Value) -> str:
    """A document without a start mark, ending with a newline."""
    lines = _lines(value, "") if _is_nested(value) else _scalar("", value, "    ")
    return "\n".join(lines) + "\n"


def _lines(value: Mapping[str, Value] | Sequence[Value], indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        # As upstream's encoder: to the next multiple of four, also from within a list's item.
        inner = " " * (len(indent) // 4 * 4 + 4)
        for key, item in value.items():
            head = f"{indent}{_text(key)}:"
            if _is_nested(item):
                yield head
                yield from _lines(item, inner)
            else:
                yield from _scalar(head + " ", item, inner)
        return
    inner = indent + "  "
    for item in value:
        if _is_nested(item):
            lines = _lines(item, inner)
            yield f"{indent}- {next(lines)[len(inner) :]}"
            yield from lines
        else:
            yield from _scalar(f"{indent}- ", item, inner)


def _is_nested(value: Value) -> TypeIs[Mapping[str, Value] | Sequence[Value]]:
    """Whether a value takes lines of its own."""
    return isinstance(value, (Mapping, Sequence)) and not isinstance(value, str) and len(value) > 0


def _scalar(head: str, value: Value, indent: str) -> Iterator[str]:
    if not isinstance(value, str) or not _is_block(value):
        yield head + _inline(value)
        return
    yield f"{head}|" if value.endswith("\n") else f"{head}|-"
    for line in value.removesuffix("\n").split("\n"):
        yield indent + line if line else ""


def _is_block(value: str) -> bool:
    """Whether a text is best read as a literal block, and loses nothing there."""
    return (
        "\n" in value
        and _BLOCK.fullmatch(value) is not None
        and not value.endswith("\n\n")
        and all(line == line.rstrip() for line in value.split("\n"))
    )


def _inline(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            return _text(value)
        case Mapping():
            return "{}"
        case _:
            return "[]"


def _number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    # A number of a free-form mapping has no integer type of its own; 2**63 is the last exact unit.
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(value)


def _text(value: str) -> str:
    is_plain = (
        _PLAIN.fullmatch(value) is not None
        and value.lower() not in _WORDS
        and ": " not in value
        and " #" not in value
        and value[-1] not in " :"
        and (_NUMBER_OR_TIME.fullmatch(value) is None or _IPV4.fullmatch(value) is not None)
    )
    return value if is_plain else f'"{"".join(map(_escape, value))}"'


def _escape(char: str) -> str:
    if (escaped := _ESCAPES.get(char)) is not None:
        return escaped
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
