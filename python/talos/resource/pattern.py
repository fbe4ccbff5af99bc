"""Regular expressions that can't hang the node: matching takes linear time.

A query's pattern comes from a client, in maintenance mode an unauthenticated one, and is matched in
PID 1. Python's own matcher backtracks: ``(a+)+$`` would stop it for hours. The syntax is
the useful part of Go's RE2, whose users write these patterns.
"""

from dataclasses import dataclass, field

from talos.resource.pattern_syntax import (
    WORD,
    Alternation,
    Assertion,
    Character,
    Concatenation,
    Node,
    Parser,
    PatternError,
    Repetition,
    Test,
)

MAX_LENGTH = 1024
"""Characters of a pattern; checked before anything is built for it."""

MAX_STATES = 400
"""Size of the automaton at most. A search takes up to this many steps for each character of an id."""


@dataclass(slots=True)
class _State:
    """A step of the automaton; one without a test or an edge only leads on."""

    test: Test | None = None
    edge: str = ""
    targets: list[int] = field(default_factory=list[int])


class Pattern:
    """A compiled pattern; PatternError when it is malformed or too large."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_LENGTH:
            raise PatternError(f"{len(pattern)} characters are too many, at most {MAX_LENGTH} are allowed")
        self.pattern = pattern
        # State 0 is the match.
        self._states = [_State()]
        self._start = self._compile(Parser(pattern).parse(), 0)

    def search(self, text: str, /) -> bool | None:
        """True when the pattern matches anywhere in the text, else None, as ``re`` has it."""
        current: set[int] = set()
        for position in range(len(text) + 1):
            self._enter(self._start, text, position, current)
            if 0 in current:
                return True
            if position == len(text):
                break
            char = text[position]
            following: set[int] = set()
            for number in current:
                state = self._states[number]
                if state.test is not None and state.test(char):
                    self._enter(state.targets[0], text, position + 1, following)
            current = following
        return None

    def _enter(self, number: int, text: str, position: int, reached: set[int]) -> None:
        """Add a state and all that can be reached from it without a character."""
        waiting = [number]
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            state = self._states[number]
            if state.test is None and (not state.edge or _is_at(state.edge, text, position)):
                waiting.extend(state.targets)

    def _compile(self, node: Node, following: int) -> int:
        """States for a node that lead on to ``following``; returns the first one."""
        match node:
            case Character():
                return self._add(_State(test=node.test, targets=[following]))
            case Assertion():
                return self._add(_State(edge=node.kind, targets=[following]))
            case Concatenation():
                for item in reversed(node.items):
                    following = self._compile(item, following)
                return following
            case Alternation():
                return self._add(_State(targets=[self._compile(item, following) for item in node.items]))
            case Repetition():
                return self._compile_repeat(node, following)

    def _compile_repeat(self, node: Repetition, following: int) -> int:
        if node.high is None:
            loop = self._add(_State())
            self._states[loop].targets = [self._compile(node.item, loop), following]
            following = loop
        else:
            end = following
            for _ in range(node.high - node.low):
                following = self._add(_State(targets=[self._compile(node.item, following), end]))
        for _ in range(node.low):
            following = self._compile(node.item, following)
        return following

    def _add(self, state: _State) -> int:
        if len(self._states) >= MAX_STATES:
            raise PatternError("the pattern is too large")
        self._states.append(state)
        return len(self._states) - 1


def _is_at(edge: str, text: str, position: int) -> bool:
    match edge:
        case "^":
            return position == 0
        case "$":
            return position == len(text)
        case _:
            before = position > 0 and text[position - 1] in WORD
            after = position < len(text) and text[position] in WORD
            return (before != after) == (edge == "b")
