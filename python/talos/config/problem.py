"""Mistakes in a config, reported all at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from talos.system.errors import UserError


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a text, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake: its place, a message, a remedy.

    ``document`` is kind and name, empty for the main document; ``path`` leads to the value.
    """

    message: str
    path: str = ""
    document: str = ""
    mark: Mark | None = None
    hint: str = ""
    source: str = ""

    def __str__(self) -> str:
        mark = f":{self.mark.line}:{self.mark.column}" if self.mark else ""
        source = f"{self.source}{mark}: " if self.source else f"{mark[1:]}: " if mark else ""
        place = " ".join(part for part in (self.document, self.path) if part)
        hint = f" ({self.hint})" if self.hint else ""
        return f"{source}{place + ': ' if place else ''}{self.message}{hint}"


class ConfigError(UserError):
    """A config that can't be used, with all of its mistakes, one line each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
