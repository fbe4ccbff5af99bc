"""A finding of the validation, before its place in the text is known."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from talos.config.model import Config
from talos.config.problem import Problem
from talos.config.schema import Document

_SHOWN = 1000  # characters of a message; values may have a megabyte


@dataclass(frozen=True, slots=True)
class Note:
    """A message with its document and path."""

    message: str
    document: Document | None = None
    path: str = ""
    hint: str = ""

    @classmethod
    def at(cls, document: Document | None, path: str = "") -> "Note":
        """A place in a document, at which findings are made."""
        return cls("", document, path)

    def below(self, path: str) -> "Note":
        """A place within this one."""
        dot = "." if self.path and path and not path.startswith("[") else ""
        return dataclasses.replace(self, path=f"{self.path}{dot}{path}")

    def find(self, message: str, *, hint: str = "") -> "Note":
        """A finding at this place."""
        return dataclasses.replace(self, message=message, hint=hint)

    def problem(self, config: Config) -> Problem:
        """The same with its place."""
        return Problem(
            message=self.message if len(self.message) <= _SHOWN else f"{self.message[:_SHOWN]}…",
            path=self.path,
            document=self.document.id if self.document and self.document.kind else "",
            mark=config.mark(self.document, self.path) if self.document else None,
            hint=self.hint,
            source=config.source,
        )


type Check = Callable[[Any], Iterator[Note]]
"""The checks of one kind of document."""
