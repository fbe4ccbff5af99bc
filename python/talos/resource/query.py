"""Queries select resources of a kind by id and labels."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Operator(enum.IntEnum):
    """How a label's value is compared; the numbers are those on the wire."""

    EXISTS = 0
    EQUAL = 1
    NOT_EXISTS = 2
    IN = 3
    LT = 4
    LTE = 5
    LT_NUMERIC = 6
    LTE_NUMERIC = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTerm:
    """One condition on one label."""

    key: str
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()
    invert: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the condition."""
        return self._compare(labels.get(self.key)) is not self.invert

    def _compare(self, value: str | None) -> bool:
        if value is None or self.operator is Operator.NOT_EXISTS:
            return value is None and self.operator is Operator.NOT_EXISTS
        if not self.values and self.operator is not Operator.EXISTS:
            return False
        match self.operator:
            case Operator.EXISTS:
                return True
            case Operator.EQUAL | Operator.IN:
                return value in self.values
            case Operator.LT:
                return value < self.values[0]
            case Operator.LTE:
                return value <= self.values[0]
            case Operator.LT_NUMERIC | Operator.LTE_NUMERIC:
                return _compare_numbers(value, self.values[0], self.operator)


def _compare_numbers(value: str, bound: str, operator: Operator) -> bool:
    try:
        left, right = int(value), int(bound)
    except ValueError:
        return False
    return left < right if operator is Operator.LT_NUMERIC else left <= right


class IdPattern(Protocol):
    """A pattern of ``re``, or of :mod:`talos.resource.pattern` when it comes from a client."""

    @property
    def pattern(self) -> str:
        """The pattern as text."""
        ...

    def search(self, string: str, /) -> object | None:
        """Not None when the pattern is found in the text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Any of the label queries (each: all of its terms), and the id pattern.

    The pattern is searched anywhere in the id, as Go's ``MatchString`` does.
    """

    labels: tuple[tuple[LabelTerm, ...], ...] = ()
    id_pattern: IdPattern | None = None

    def matches(self, id: str, labels: Mapping[str, str]) -> bool:
        """Whether a resource with this id and these labels is selected."""
        if self.id_pattern is not None and self.id_pattern.search(id) is None:
            return False
        return not self.labels or any(all(term.matches(labels) for term in terms) for terms in self.labels)


ALL = Query()
