"""The part of CEL that choosing a disk takes: ``disk.size > 100u * GB && disk.transport == "nvme"``.

Literals, lists, fields, ``!`` ``-`` ``*`` ``/`` ``%`` ``+``, comparisons, ``in``, ``&&``, ``||``, ``?:``, the
text functions ``startsWith``, ``endsWith``, ``contains``, ``matches``, ``size``, ``glob``. Anything else
is refused with its place. As in CEL, ``&&`` and ``||`` want truth values, and numbers are compared whatever
their type.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from talos.system.errors import UserError

type Value = Any
"""A bool, int, float, str, a list of values, or a mapping of field names to values."""
type Names = Mapping[str, Value]
type _Node = Callable[[Names], Value]

UNITS: Mapping[str, int] = {
    **{f"{letter}B": 1000 ** (power + 1) for power, letter in enumerate("kMGTPE")},
    "KB": 1000,
    **{f"{letter}iB": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")},
}
"""Names of sizes that every expression may use: ``GB``, ``GiB``."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+\.\d+(?:[eE][-+]?\d+)?|\d+[uU]?)
    |(?P<text>[rR]?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]])
    )""",
    re.VERBOSE,
)
_BINARY: Mapping[str, tuple[int, Callable[[Value, Value], Value]]] = {
    "==": (3, operator.eq),
    "!=": (3, operator.ne),
    "<": (3, operator.lt),
    "<=": (3, operator.le),
    ">": (3, operator.gt),
    ">=": (3, operator.ge),
    "in": (3, lambda item, items: item in items),
    "+": (4, operator.add),
    "-": (4, operator.sub),
    "*": (5, operator.mul),
    "/": (5, lambda left, right: left // right if isinstance(left, int) else left / right),
    "%": (5, operator.mod),
}
_OR, _AND = 1, 2
_METHODS: Mapping[str, Callable[[Value, Value], Value]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}


def _match_glob(pattern: str, text: str) -> bool:
    return fnmatchcase(text, pattern)


_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Value]]] = {
    "size": (1, len),
    "glob": (2, _match_glob),
    "int": (1, int),
    "uint": (1, int),
    "string": (1, str),
}
_CONSTANTS: Names = {"true": True, "false": False, "null": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read; ``where`` is the config's path, for errors."""

    text: str
    where: str
    _node: _Node

    def is_true(self, names: Names) -> bool:
        """What it says about these names; UserError when it doesn't say yes or no."""
        try:
            value = self._node({**_CONSTANTS, **UNITS, **names})
        except (TypeError, ValueError, ZeroDivisionError, re.error) as error:
            raise UserError(f"{self.text!r} can't be computed: {error}", where=self.where) from None
        if not isinstance(value, bool):
            raise UserError(f"{self.text!r} is {value!r}, neither true nor false", where=self.where)
        return value


def parse_expression(text: str, *, where: str) -> Expression:
    """Read an expression; UserError with the place of what is not understood."""
    return Expression(text, where, _Parser(text, where).parse())


class _Parser:
    """Precedence climbing over the tokens."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._tokens: list[tuple[str, str, int]] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._make_error(
                    place + len(text[place:]) - len(text[place:].lstrip()), "not understood"
                )
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind], match.start(kind)))
            place = match.end()
        self._tokens.append(("end", "", len(text)))
        self._at = 0

    def parse(self) -> _Node:
        node = self._parse_choice()
        if self._tokens[self._at][0] != "end":
            raise self._make_error_here()
        return node

    def _parse_choice(self) -> _Node:
        test = self._parse_binary(_OR)
        if not self._take("?"):
            return test
        yes = self._parse_choice()
        self._want(":")
        no = self._parse_choice()
        return lambda names: yes(names) if _truth(test(names)) else no(names)

    def _parse_binary(self, least: int) -> _Node:
        left = self._parse_unary()
        while True:
            kind, word, _ = self._tokens[self._at]
            if word == "||" and least <= _OR:
                self._at += 1
                left = _make_or(left, self._parse_binary(_OR + 1))
            elif word == "&&" and least <= _AND:
                self._at += 1
                left = _make_and(left, self._parse_binary(_AND + 1))
            elif kind in ("sign", "name") and word in _BINARY and _BINARY[word][0] >= least:
                self._at += 1
                level, function = _BINARY[word]
                left = _make_binary(function, left, self._parse_binary(level + 1))
            else:
                return left

    def _parse_unary(self) -> _Node:
        if self._take("!"):
            inner = self._parse_unary()
            return lambda names: not _truth(inner(names))
        if self._take("-"):
            inner = self._parse_unary()
            return lambda names: -inner(names)
        return self._parse_member()

    def _parse_member(self) -> _Node:
        node = self._parse_primary()
        while True:
            if self._take("."):
                name, place = self._take_name()
                if self._take("("):
                    node = self._parse_method(node, name, place)
                else:
                    node = self._make_field(node, name, place)
            elif self._take("["):
                index = self._parse_choice()
                self._want("]")
                node = _make_binary(operator.getitem, node, index)
            else:
                return node

    def _parse_method(self, node: _Node, name: str, place: int) -> _Node:
        arguments = self._parse_list(")")
        if name == "size" and not arguments:
            return lambda names: len(node(names))
        if name in ("lowerAscii", "upperAscii") and not arguments:
            return lambda names: str.lower(node(names)) if name == "lowerAscii" else str.upper(node(names))
        if name not in _METHODS or len(arguments) != 1:
            raise self._make_error(place, f"there is no function {name} with {len(arguments)} arguments here")
        return _make_binary(_METHODS[name], node, arguments[0])

    def _make_field(self, node: _Node, name: str, place: int) -> _Node:
        def get(names: Names) -> Value:
            value = node(names)
            if not isinstance(value, Mapping) or name not in value:
                raise self._make_error(place, f"there is no {name} here")
            return value[name]  # pyright: ignore[reportUnknownVariableType]

        return get

    def _parse_primary(self) -> _Node:
        kind, word, place = self._tokens[self._at]
        self._at += 1
        match kind:
            case "number":
                number = _read_number(word)
                return lambda _: number
            case "text":
                text = _unquote(word)
                return lambda _: text
            case "name":
                return self._parse_name(word, place)
            case _ if word == "(":
                node = self._parse_choice()
                self._want(")")
                return node
            case _ if word == "[":
                items = self._parse_list("]")
                return lambda names: [item(names) for item in items]
            case _:
                self._at -= 1
                raise self._make_error_here()

    def _parse_name(self, word: str, place: int) -> _Node:
        if self._take("("):
            arguments = self._parse_list(")")
            count, function = _FUNCTIONS.get(word, (-1, len))
            if len(arguments) != count:
                raise self._make_error(place, f"there is no function {word} with {len(arguments)} arguments")
            return lambda names: function(*(argument(names) for argument in arguments))

        def get(names: Names) -> Value:
            if word not in names:
                raise self._make_error(place, f"{word} is not known")
            return names[word]

        return get

    def _parse_list(self, end: str) -> list[_Node]:
        items: list[_Node] = []
        while not self._take(end):
            if items:
                self._want(",")
            items.append(self._parse_choice())
        return items

    def _take(self, sign: str) -> bool:
        kind, word, _ = self._tokens[self._at]
        taken = kind == "sign" and word == sign
        self._at += taken
        return taken

    def _take_name(self) -> tuple[str, int]:
        kind, word, place = self._tokens[self._at]
        if kind != "name":
            raise self._make_error_here()
        self._at += 1
        return word, place

    def _want(self, sign: str) -> None:
        if not self._take(sign):
            raise self._make_error(self._tokens[self._at][2], f"{sign} expected")

    def _make_error_here(self) -> UserError:
        _, word, place = self._tokens[self._at]
        return self._make_error(place, f"{word} is not understood" if word else "it ends too early")

    def _make_error(self, place: int, what: str) -> UserError:
        return UserError(
            f"{self._text!r}, character {place + 1}: {what}",
            where=self._where,
            hint='such as disk.dev_path == "/dev/sda" or disk.size > 100u * GB',
        )


def _read_number(word: str) -> int | float:
    if word[:2].lower() == "0x":
        return int(word.rstrip("uU"), 16)
    return float(word) if "." in word else int(word.rstrip("uU"))


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _make_or(left: _Node, right: _Node) -> _Node:
    return lambda names: _truth(left(names)) or _truth(right(names))


def _make_and(left: _Node, right: _Node) -> _Node:
    return lambda names: _truth(left(names)) and _truth(right(names))


def _make_binary(function: Callable[[Value, Value], Value], left: _Node, right: _Node) -> _Node:
    return lambda names: function(left(names), right(names))


def _unquote(word: str) -> str:
    if word[0] in "rR":
        return word[2:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), word[1:-1])
