"""YAML as upstream's encoder writes it: every spec of a resource, config, bundle and client file.

    to_yaml(value) -> one document, without a start mark, ending with a newline

Four spaces of indentation, items of a list two; a string is plain where that means the same, in double
quotes where a reader would resolve it to another type, in single ones where it contains an indicator of YAML,
and as a block when it has several lines. tests/data/yaml/texts.json has the rules as a table;
docs/decisions/yaml-emitter.md has the reasons against PyYAML.
"""

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeIs

type Value = str | bool | int | float | Sequence[Value] | Mapping[str, Value] | None
type Path = tuple[str, ...]

_STEP = 4

# What the great majority of texts looks like: plain unless it is one of the reserved scalars.
_HARMLESS = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.-]*")
# What a reader of YAML 1.1 or 1.2 takes for a boolean, nothing, a merge or a value of its own.
_WORDS = frozenset(
    {"", "~", "<<", "=", "y", "Y", "n", "N"}
    | {form for scalar in ("yes", "no", "on", "off", "true", "false", "null")
       for form in (scalar, scalar.capitalize(), scalar.upper())}
    | {f"{sign}.{form}" for sign in ("", "+", "-") for form in ("inf", "Inf", "INF")}
    | {".nan", ".NaN", ".NAN"}
)  # fmt: skip
_INTEGER = re.compile(r"[-+]?(?:0b[01]+|0o?[0-7]+|0x[0-9a-fA-F]+|[0-9]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TIME = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}"
    r"(?:[Tt]\d\d:\d{1,2}:\d{1,2}(?:\.\d+)?(?:Z|[-+]\d\d:\d\d)| \d\d:\d{1,2}:\d{1,2}(?:\.\d+)?)?",
    re.ASCII,
)
_NOT_PLAIN = re.compile(r"[,\[\]{}#&*!|>'\"%@`]|[-?:](?: |$)|.*(?:: | #)|.*:$| |.* $|---|\.\.\.", re.DOTALL)
_PRINTABLE = r"\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
_SPECIAL = re.compile(f"[^{_PRINTABLE}]")
_NOT_IN_BLOCK = re.compile(rf"[^\n\t{_PRINTABLE}]| \n| \Z")
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v",
    "\f": "\\f", "\r": "\\r", "\x1b": "\\e", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P",
}  # fmt: skip


class Comments:
    """What to write beside the values; this one writes nothing."""

    def of(self, path: Path) -> str:
        """The remark at a key, one line."""
        del path
        return ""

    def after(self, path: Path) -> Sequence[str]:
        """Lines to add as comments at the end of a mapping."""
        del path
        return ()


NO_COMMENTS = Comments()


def to_yaml(value: Value, *, comments: Comments = NO_COMMENTS) -> str:
    """One document without a start mark, with a line end after its last line."""
    nested = _is_nested(value)
    lines = _lines(value, "", (), comments) if nested else _scalar("", value, "", " " * _STEP)
    return "\n".join(lines) + "\n"


def _compare(left: str, right: str) -> int:
    digits = False
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one == other:
            digits = one.isdigit()
        elif one.isalpha() and other.isalpha():
            return -1 if one < other else 1
        elif one.isalpha() or other.isalpha():
            # What follows a number sorts before a longer number.
            return -1 if (one if digits else other).isalpha() else 1
        else:
            mine, its = _number_around(left, at), _number_around(right, at)
            if mine and its and int(mine) != int(its):
                return -1 if int(mine) < int(its) else 1
            return -1 if (len(mine), one) < (len(its), other) else 1
    return len(left) - len(right)


def _number_around(text: str, at: int) -> str:
    begin = at
    while begin > 0 and text[begin - 1].isdigit():
        begin -= 1
    end = at
    while end < len(text) and text[end].isdigit():
        end += 1
    return text[begin:end]


natural_order = functools.cmp_to_key(_compare)
"""The order in which upstream writes the keys of a map: numbers by their value, letters after other marks."""


def _lines(
    value: Mapping[str, Value] | Sequence[Value], indent: str, path: Path, comments: Comments
) -> Iterator[str]:
    if isinstance(value, Mapping):
        return _mapping(value, indent, path, comments)
    return _sequence(value, indent, path, comments)


def _mapping(value: Mapping[str, Value], indent: str, path: Path, comments: Comments) -> Iterator[str]:
    # To the next multiple of the step, also from within a list's item, which stands at two more.
    inner = " " * ((len(indent) // _STEP + 1) * _STEP)
    has_comments = comments is not NO_COMMENTS
    for key, item in value.items():
        below = (*path, key) if has_comments else path
        remark = comments.of(below) if has_comments else ""
        head = f"{indent}{_key(key)}:"
        if _is_nested(item):
            if remark:
                yield f"{indent}# {remark}"
            yield head
            yield from _lines(item, inner, below, comments)
        elif not remark:
            yield from _scalar(f"{head} ", item, indent, inner)
        elif isinstance(item, str) and _is_block(item):
            yield f"{indent}# {remark}"
            yield from _scalar(f"{head} ", item, indent, inner)
        else:
            yield f"{head} {_inline(item)} # {remark}"
    for line in comments.after(path):
        yield f"{indent}# {line}".rstrip()


def _sequence(value: Sequence[Value], indent: str, path: Path, comments: Comments) -> Iterator[str]:
    inner = indent + "  "
    for item in value:
        if not _is_nested(item):
            yield from _scalar(f"{indent}- ", item, indent, inner)
            continue
        lines = _lines(item, inner, (*path, "[]"), comments)
        first = next(lines)
        while first.lstrip().startswith("#"):
            yield first
            first = next(lines)
        yield f"{indent}- {first[len(inner) :]}"
        yield from lines


def _is_nested(value: Value) -> TypeIs[Mapping[str, Value] | Sequence[Value]]:
    """Whether a value takes lines of its own."""
    return isinstance(value, (Mapping, Sequence)) and not isinstance(value, str) and len(value) > 0


def _scalar(head: str, value: Value, indent: str, inner: str) -> Iterator[str]:
    if not isinstance(value, str) or not _is_block(value):
        yield head + _inline(value)
        return
    body = value.rstrip("\n")
    blank = len(value) - len(body)
    # Without the hint a reader takes a leading blank for indentation.
    hint = len(inner) - len(indent) if value.startswith(" ") else ""
    yield f"{head}|{hint}{ {0: '-', 1: ''}.get(blank, '+') }"
    for line in (*body.split("\n"), *([""] * (blank - 1))):
        yield inner + line if line else ""


def _is_block(value: str) -> bool:
    """Whether a text is written as a literal block, and loses nothing there."""
    if "\n" not in value or _NOT_IN_BLOCK.search(value):
        return False
    body = value.strip("\n")
    return bool(body) and body[0] != "\t" and not (value[0] == "\n" and body[0] == " ")


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
    if _HARMLESS.fullmatch(value) and value not in _WORDS:
        return value
    if _SPECIAL.search(value) or _is_another_type(value):
        return f'"{"".join(map(_escape, value))}"'
    if _NOT_PLAIN.match(value):
        return "'" + value.replace("'", "''") + "'"
    return value


_key = functools.lru_cache(maxsize=1024)(_text)
"""Keys are few and come again in every spec of a kind."""


def _is_another_type(value: str) -> bool:
    """Whether a reader takes the text without quotes for another type."""
    if value in _WORDS:
        return True
    if value[0] not in "0123456789+-.":
        return False
    number = value if value[0] == "." else value.replace("_", "")
    if _FLOAT.fullmatch(number):
        return math.isfinite(float(number))
    if _INTEGER.fullmatch(number):
        return True
    return _BASE_60.fullmatch(value) is not None or _TIME.fullmatch(value) is not None


def _escape(character: str) -> str:
    if (escaped := _ESCAPES.get(character)) is not None:
        return escaped
    if not _SPECIAL.match(character):
        return character
    code = ord(character)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
