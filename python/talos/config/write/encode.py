"""Plain data as YAML, in the style of the config files that Go's yaml.v3 writes.

Four spaces of indentation, lists indented below their key, texts that would be taken for
something else in double quotes, other odd texts in single ones, several lines as a block.

    encode(value) -> str
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from talos.config.read.tree import Mark, ScalarNode, resolve
from talos.config.values import NUMERIC_TEXTS, FileMode

type Path = tuple[str, ...]

_STEP = 4

# What YAML 1.1 readers take for a boolean, a base-60 number or a time.
_OLD_WORDS = frozenset(
    {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"}
)
_OLD_NUMBER = re.compile(
    r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|<<|="
)
_NEVER_PLAIN = re.compile(
    r"[,\[\]{}#&*!|>'\"%@`]|[-?:](?: |$)|.*(?:: | #)|.*:$|\s|.*\s$|---|\.\.\.", re.DOTALL
)
_PRINTABLE = r"\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
_NEEDS_ESCAPES = re.compile(f"[^{_PRINTABLE}]")
_BLOCK_FORBIDS = re.compile(rf"[^\n\t{_PRINTABLE}]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\x1b": "\\e"}


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


def encode(value: Any, *, comments: Comments = NO_COMMENTS) -> str:
    """One document as YAML, with a line end after its last line."""
    lines = _collection(value, "", (), comments)
    return "\n".join(lines) + "\n" if lines is not None else _flow(value, "") + "\n"


def _collection(value: Any, indent: str, path: Path, comments: Comments) -> Iterator[str] | None:
    """The lines of a mapping or list that has entries; None for anything that fits on one line."""
    if isinstance(value, Mapping) and value:
        return _mapping(cast("Mapping[str, Any]", value), indent, path, comments)
    if isinstance(value, list | tuple) and value:
        return _sequence(cast("Sequence[Any]", value), indent, path, comments)
    return None


def _mapping(value: Mapping[str, Any], indent: str, path: Path, comments: Comments) -> Iterator[str]:
    for key, item in value.items():
        below = (*path, key)
        remark = comments.of(below)
        tail = f" # {remark}" if remark else ""
        head = f"{indent}{_scalar(key)}:"
        lines = _collection(item, _deeper(indent), below, comments)
        if lines is not None:
            if tail:
                yield f"{indent}#{tail[2:]}"
            yield head
            yield from lines
        else:
            text = _flow(item, _deeper(indent))
            multiline = "\n" in text
            if multiline and tail:
                yield f"{indent}#{tail[2:]}"
            yield f"{head} {text}{'' if multiline else tail}"
    for line in comments.after(path):
        yield f"{indent}# {line}".rstrip()


def _deeper(indent: str) -> str:
    """The next multiple of the step, also from within a list's item, which stands at two more."""
    return " " * ((len(indent) // _STEP + 1) * _STEP)


def _sequence(value: Sequence[Any], indent: str, path: Path, comments: Comments) -> Iterator[str]:
    for item in value:
        lines = _collection(item, indent + "  ", (*path, "[]"), comments)
        if lines is None:
            lines = iter([f"{indent}  {_flow(item, _deeper(indent))}"])
        first = next(lines)
        while first.lstrip().startswith("#"):
            yield first
            first = next(lines)
        yield f"{indent}- {first[len(indent) + 2 :]}"
        yield from lines


def _flow(value: Any, indent: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case FileMode():
            return f"0o{value:o}"
        case int():
            return str(value)
        case float():
            return repr(value)
        case str():
            return _text(value, indent)
        case Mapping():
            return "{}"
        case _:
            return "[]"


def _text(value: str, indent: str) -> str:
    if (
        "\n" in value
        and not _BLOCK_FORBIDS.search(value)
        and value.strip("\n")
        and not value.startswith((" ", "\n", "\t"))
    ):
        return _block(value, indent)
    return _scalar(value)


def _block(value: str, indent: str) -> str:
    body = value.rstrip("\n")
    blank = len(value) - len(body)
    chomp = {0: "-", 1: ""}.get(blank, "+")
    lines = [*body.split("\n"), *([""] * max(0, blank - 1))]
    return "\n".join([f"|{chomp}", *(f"{indent}{line}" if line else "" for line in lines)])


def _scalar(value: str) -> str:
    if isinstance(value, NUMERIC_TEXTS) and value.isdecimal():
        return str(value)
    if _is_ambiguous(value) or _NEEDS_ESCAPES.search(value):
        return '"' + "".join(map(_escape, value)) + '"'
    if _NEVER_PLAIN.match(value):
        return "'" + value.replace("'", "''") + "'"
    return value


def _is_ambiguous(value: str) -> bool:
    if value in _OLD_WORDS or _OLD_NUMBER.fullmatch(value):
        return True
    return not isinstance(resolve(ScalarNode(value, Mark(0, 0), plain=True)), str)


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if not _NEEDS_ESCAPES.match(character):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
