"""A finding of the validation, before its place in the text is known."""

from dataclasses import dataclass

from talos.config.model import Config
from talos.config.problem import Problem
from talos.config.schema import Document

_SHOWN = 400  # characters of a message; values may have a megabyte


@dataclass(frozen=True, slots=True)
class Note:
    """What is wrong, in which document, at which path."""

    message: str
    document: Document | None = None
    path: str = ""
    hint: str = ""

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
