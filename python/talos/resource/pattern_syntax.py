"""The syntax of patterns: the useful part of Go's RE2, parsed by recursive descent."""

import itertools
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

MAX_REPETITION = 1000
"""Largest count of a repetition, as in RE2."""
MAX_MEMBERS = 256
"""Characters and ranges of one set: each is tested for every character of a text."""

type Test = Callable[[str], bool]
type Node = Character | Assertion | Concatenation | Alternation | Repetition

WORD = frozenset(string.ascii_letters + string.digits + "_")
_CLASSES: dict[str, Test] = {
    "d": frozenset(string.digits).__contains__,
    "w": WORD.__contains__,
    "s": frozenset("\t\n\f\r ").__contains__,
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class PatternError(ValueError):
    """The text is no pattern, or one of a kind that isn't supported."""


@dataclass(frozen=True, slots=True)
class Character:
    """One character that passes a test."""

    test: Test


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place between characters: one of ``^``, ``$``, ``b``, ``B``."""

    kind: str


@dataclass(frozen=True, slots=True)
class Concatenation:
    """One node after another."""

    items: Sequence[Node]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Any one of several nodes."""

    items: Sequence[Node]


@dataclass(frozen=True, slots=True)
class Repetition:
    """A node from ``low`` to ``high`` times, without an end when that is None."""

    item: Node
    low: int
    high: int | None


class Parser:
    """Parses one pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._ignore_case = False
        self._depth = 0

    def parse(self) -> Node:
        """The tree of the pattern; PatternError."""
        node = self._choice()
        if self._position < len(self._pattern):
            raise PatternError("unexpected )")
        return node

    def _peek(self) -> str:
        return self._pattern[self._position : self._position + 1]

    def _take(self, expected: str = "") -> str:
        char = self._peek()
        if not char or (expected and char != expected):
            raise PatternError(f"missing {expected or 'character at the end'}")
        self._position += 1
        return char

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > 50:
            raise PatternError("too many nested groups")
        items = [self._sequence()]
        while self._peek() == "|":
            self._take()
            items.append(self._sequence())
        self._depth -= 1
        return Alternation(items) if len(items) > 1 else items[0]

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            items.append(self._repeat(self._atom()))
        return Concatenation(items)

    def _repeat(self, item: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return item
        if self._peek() == "?":
            # Lazy or greedy makes no difference to whether there is a match.
            self._take()
        if self._bounds() is not None:
            raise PatternError("a repetition of a repetition")
        return Repetition(item, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        match self._peek():
            case "*":
                bounds = (0, None)
            case "+":
                bounds = (1, None)
            case "?":
                bounds = (0, 1)
            case "{":
                return self._counted_bounds()
            case _:
                return None
        self._take()
        return bounds

    def _counted_bounds(self) -> tuple[int, int | None] | None:
        text, brace, _ = self._pattern[self._position + 1 :].partition("}")
        low, comma, high = text.partition(",")
        if not brace or not low.isdecimal() or not (high.isdecimal() or not high):
            return None
        self._position += len(text) + 2
        bounds = int(low), (int(high) if high else None) if comma else int(low)
        if bounds[0] > MAX_REPETITION or (
            bounds[1] is not None and not bounds[0] <= bounds[1] <= MAX_REPETITION
        ):
            raise PatternError(f"bad repetition {{{text}}}")
        return bounds

    def _atom(self) -> Node:
        match char := self._take():
            case "(":
                return self._group()
            case "[":
                return Character(self._cased(self._set()))
            case ".":
                return Character(lambda char: char != "\n")
            case "^" | "$":
                return Assertion(char)
            case "*" | "+" | "?":
                raise PatternError("nothing to repeat")
            case "\\":
                return self._escape()
            case _:
                return Character(self._cased(char.__eq__))

    def _group(self) -> Node:
        outer = self._ignore_case
        if self._peek() == "?":
            self._take()
            if self._pattern.startswith(("P<", "<"), self._position):
                name, _, _ = self._pattern[self._position :].partition(">")
                self._position += len(name)
                self._take(">")
            elif self._flags():
                return Concatenation([])
        node = self._choice()
        self._take(")")
        self._ignore_case = outer
        return node

    def _flags(self) -> bool:
        """Read ``i:``, ``:`` or ``i)``; true for the last, which holds until the group ends."""
        while (char := self._take()) not in (":", ")"):
            if char not in ("i", "s"):
                raise PatternError(f"(?{char} is not supported")
            self._ignore_case = self._ignore_case or char == "i"
        return char == ")"

    def _cased(self, test: Test) -> Test:
        if not self._ignore_case:
            return test
        return lambda char: test(char.lower()) or test(char.upper())

    def _escape(self) -> Node:
        char = self._take()
        edges = {"A": "^", "z": "$", "b": "b", "B": "B"}
        if char in edges:
            return Assertion(edges[char])
        return Character(self._class(char) or self._cased(self._literal(char).__eq__))

    def _class(self, char: str) -> Test | None:
        test = _CLASSES.get(char.lower())
        if test is None or char.islower():
            return test
        return lambda char: not test(char)

    def _literal(self, escaped: str) -> str:
        if escaped == "x":
            digits = self._take() + self._take()
            try:
                return chr(int(digits, 16))
            except ValueError as error:
                raise PatternError(f"bad escape \\x{digits}") from error
        if escaped.isalnum() and escaped not in _CONTROLS:
            raise PatternError(f"\\{escaped} is not supported")
        return _CONTROLS.get(escaped, escaped)

    def _set(self) -> Test:
        is_negated = self._peek() == "^"
        if is_negated:
            self._take()
        tests = list(itertools.islice(self._members(), MAX_MEMBERS + 1))
        if len(tests) > MAX_MEMBERS:
            raise PatternError(f"a set has more than {MAX_MEMBERS} members")
        return lambda char: any(test(char) for test in tests) is not is_negated

    def _members(self) -> Iterator[Test]:
        is_first = True
        while (char := self._take()) != "]" or is_first:
            is_first = False
            if char == "[" and self._peek() == ":":
                raise PatternError("[: :] is not supported")
            if char == "\\":
                escaped = self._take()
                if (test := self._class(escaped)) is not None:
                    yield test
                    continue
                char = self._literal(escaped)
            yield self._range(char)

    def _range(self, low: str) -> Test:
        rest = self._pattern[self._position : self._position + 2]
        if len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return low.__eq__
        self._take("-")
        high = self._take()
        if high == "\\":
            high = self._literal(self._take())
        if high < low:
            raise PatternError(f"bad range {low}-{high}")
        return lambda char: low <= char <= high
