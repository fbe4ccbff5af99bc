"""Expressions in CEL are read: ``disk.size > 100u * GB && disk.transport == "nvme"``.

Length, number of tokens and depth are bounded before anything recurses, since configs are untrusted input.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from talos.config.cel.syntax import (
    INT_RANGE,
    MACROS,
    UINT_RANGE,
    Apply,
    CelError,
    Comprehension,
    Field,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    UInt,
)

MAX_LENGTH = 2048
"""Characters of an expression. The longest that upstream's documentation shows has 400."""
MAX_TOKENS = 300
MAX_DEPTH = 32
"""Parentheses, brackets, calls and signs inside each other."""

_TOKEN = re.compile(
    r"""(?:
    (?P<number>0[xX][0-9a-fA-F]++[uU]?|\d++\.\d++(?:[eE][-+]?\d++)?|\d++[uU]?)
    |(?P<text>[rR]?(?:"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*+)
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])
    )""",
    re.VERBOSE,
)
_SPACE = re.compile(r"\s*+")
_RANKS: Mapping[str, int] = {
    **dict.fromkeys(("||",), 1),
    **dict.fromkeys(("&&",), 2),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
"""The precedence of each operator."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_ESCAPE = re.compile(r"\\(.)")
_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


def parse(text: str) -> Node:
    """Read an expression; CelError with the place of the mistake."""
    if len(text) > MAX_LENGTH:
        raise CelError(f"{len(text)} characters, at most {MAX_LENGTH} are read", MAX_LENGTH + 1)
    parser = _Parser(_split(text))
    node = parser.parse_choice()
    parser.expect_end()
    return node


def _split(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    place = _skip_space(text, 0)
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise CelError("not understood", place + 1)
        if len(tokens) == MAX_TOKENS:
            raise CelError(f"too long, at most {MAX_TOKENS} names, values and signs are read", place + 1)
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, match[kind], place + 1))
        place = _skip_space(text, match.end())
    tokens.append(_Token("end", "", place + 1))
    return tokens


def _skip_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


class _Parser:
    """Precedence climbing over the tokens."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def expect_end(self) -> None:
        if self._token.kind != "end":
            raise self._make_error()

    def parse_choice(self) -> Node:
        self._enter()
        test = self._parse_binary(1)
        place = self._token.place
        if self._take("?"):
            yes = self.parse_choice()
            self._expect(":")
            test = Apply(function="_?_:_", arguments=(test, yes, self.parse_choice()), place=place)
        self._depth -= 1
        return test

    def _parse_binary(self, minimum: int) -> Node:
        left = self._parse_unary()
        while True:
            token = self._token
            rank = _RANKS.get(token.text, 0) if token.kind in ("sign", "name") else 0
            if rank < minimum or not rank:
                return left
            self._at += 1
            right = self._parse_binary(rank + 1)
            name = "@in" if token.text == "in" else f"_{token.text}_"
            left = Apply(function=name, arguments=(left, right), place=token.place)

    def _parse_unary(self) -> Node:
        token = self._token
        if token.kind == "sign" and token.text in ("!", "-"):
            self._at += 1
            self._enter()
            operand = self._parse_unary()
            self._depth -= 1
            return Apply(function=f"{token.text}_", arguments=(operand,), place=token.place)
        return self._parse_member()

    def _parse_member(self) -> Node:
        node = self._parse_primary()
        while True:
            place = self._token.place
            if self._take("."):
                node = self._parse_field(node)
            elif self._take("["):
                index = self.parse_choice()
                self._expect("]")
                node = Apply(function="_[_]", arguments=(node, index), place=place)
            else:
                return node

    def _parse_field(self, node: Node) -> Node:
        token = self._take_name()
        if not self._take("("):
            return Field(operand=node, name=token.text, place=token.place)
        arguments = self._parse_list(")")
        if token.text in MACROS:
            return self._make_comprehension(node, token, arguments)
        return Apply(function=token.text, target=node, arguments=arguments, place=token.place)

    @staticmethod
    def _make_comprehension(items: Node, token: _Token, arguments: tuple[Node, ...]) -> Node:
        match arguments:
            case (Name(name=variable), body):
                return Comprehension(
                    macro=token.text, items=items, variable=variable, body=body, place=token.place
                )
            case _:
                raise CelError(f"{token.text} takes a name and an expression", token.place)

    def _parse_primary(self) -> Node:
        token = self._token
        self._at += 1
        match token.kind:
            case "number":
                return Literal(value=_read_number(token), place=token.place)
            case "text":
                return Literal(value=_unquote(token.text), place=token.place)
            case "name" if token.text in _CONSTANTS:
                return Literal(value=_CONSTANTS[token.text], place=token.place)
            case "name" if token.text not in _RANKS:
                return self._parse_name(token)
            case "sign" if token.text == "(":
                node = self.parse_choice()
                self._expect(")")
                return node
            case "sign" if token.text == "[":
                return ListOf(items=self._parse_list("]"), place=token.place)
            case "sign" if token.text == "{":
                return MapOf(entries=self._parse_entries(), place=token.place)
            case _:
                self._at -= 1
                raise self._make_error()

    def _parse_name(self, token: _Token) -> Node:
        if not self._take("("):
            return Name(name=token.text, place=token.place)
        arguments = self._parse_list(")")
        if token.text != "has":
            return Apply(function=token.text, arguments=arguments, place=token.place)
        match arguments:
            case (Field(operand=operand, name=name, place=place),):
                return Field(operand=operand, name=name, place=place, test=True)
            case _:
                raise CelError("has takes a field, such as has(disk.serial)", token.place)

    def _parse_list(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._take(end):
            if items:
                self._expect(",")
            items.append(self.parse_choice())
        return tuple(items)

    def _parse_entries(self) -> tuple[tuple[Node, Node], ...]:
        entries: list[tuple[Node, Node]] = []
        while not self._take("}"):
            if entries:
                self._expect(",")
            key = self.parse_choice()
            self._expect(":")
            entries.append((key, self.parse_choice()))
        return tuple(entries)

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise CelError(f"nested deeper than {MAX_DEPTH} levels", self._token.place)

    def _take(self, sign: str) -> bool:
        taken = self._token.kind == "sign" and self._token.text == sign
        self._at += taken
        return taken

    def _take_name(self) -> _Token:
        token = self._token
        if token.kind != "name":
            raise self._make_error()
        self._at += 1
        return token

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise CelError(f"{sign} expected", self._token.place)

    def _make_error(self) -> CelError:
        token = self._token
        return CelError(f"{token.text} is not understood" if token.text else "it ends too early", token.place)


def _read_number(token: _Token) -> int | float:
    digits = token.text.rstrip("uU")
    if "." in digits:
        return float(digits)
    number = int(digits, 16 if digits[:2].lower() == "0x" else 10)
    unsigned = len(digits) < len(token.text)
    if number not in (UINT_RANGE if unsigned else INT_RANGE):
        raise CelError(f"{token.text} is out of range", token.place)
    return UInt(number) if unsigned else number


def _unquote(text: str) -> str:
    if text[0] in "rR":
        return text[2:-1]
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
