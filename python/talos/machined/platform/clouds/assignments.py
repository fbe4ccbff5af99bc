"""Assignments of texts to variables, as in a script of a shell, of which nothing is run or replaced."""

import re
from collections.abc import Mapping

from talos.machined.platform.values import MAX_ITEMS
from talos.system.errors import UserError

MAX_BYTES, MAX_PIECES = 1024 * 1024, 50_000
"""Of all variables together; a text has two pieces more for each quotation mark in it."""
_SINGLE, _DOUBLE = r"'([^']*+)'", r'"((?:[^"\\$`]|\\.)*+)"'
_ESCAPED, _PLAIN = r"\\(.)", r"([A-Za-z0-9_.,:/@%+=-]++)"
_PIECE = re.compile(rf"{_SINGLE}|{_DOUBLE}|{_ESCAPED}|{_PLAIN}", re.DOTALL)
_ASSIGNMENT = re.compile(
    rf"(?P<name>[A-Za-z_][A-Za-z0-9_]{{0,127}})="
    rf"(?P<value>(?:{_SINGLE}|{_DOUBLE}|{_ESCAPED}|{_PLAIN})*+)(?:\s++|\Z)",
    re.DOTALL,
)
_GAP = re.compile(r"(?:\s|#[^\n]*+)*+")
_ESCAPE_IN_DOUBLE = re.compile(r'\\([\\"$`\n])')


def read_assignments(data: bytes, file: str) -> Mapping[str, str]:
    """The variables of a script that consists of assignments, comments and empty lines; the last of a name.

    UserError: with the line where something else is: a command, a variable's value, an open quotation mark.
    """
    if len(data) > MAX_BYTES:
        raise UserError(f"it has more than {MAX_BYTES} bytes", where=file)
    text = data.decode("utf-8", "replace")
    found: dict[str, str] = {}
    place, pieces = _skip(text, 0), 0
    while place < len(text):
        match = _ASSIGNMENT.match(text, place)
        if match is None:
            where = f"{file}:{text.count('\n', 0, place) + 1}"
            raise UserError("a name, = and a text in quotation marks are expected here", where=where)
        found[match["name"]], number = _PIECE.subn(_read, match["value"], MAX_PIECES)
        pieces += number + 1
        if len(found) > MAX_ITEMS or pieces > MAX_PIECES:
            raise UserError(f"more than {MAX_ITEMS} variables or {MAX_PIECES} pieces", where=file)
        place = _skip(text, match.end())
    return found


def _skip(text: str, place: int) -> int:
    gap = _GAP.match(text, place)
    return gap.end() if gap else place


def _read(piece: re.Match[str]) -> str:
    single, double, escaped, plain = piece.groups()
    if double is not None:
        return _ESCAPE_IN_DOUBLE.sub(lambda match: _unescape(match[1]), double)
    return _unescape(escaped) if escaped is not None else single or plain or ""


def _unescape(character: str) -> str:
    """What stands for itself; a line feed does not: the line goes on in the next one."""
    return "" if character == "\n" else character
