"""Checks of rules for devices."""

from collections.abc import Iterable, Iterator

from talos.config.check.note import Note
from talos.config.udev_rules import parse_rules
from talos.system.errors import UserError


def check_udev_rules(rules: Iterable[str] | None, at: Note) -> Iterator[Note]:
    """Every rule must be one that nodes support; ``at`` is the place of the list."""
    for index, rule in enumerate(rules or ()):
        try:
            parse_rules([rule])
        except UserError as error:
            line = error.where.partition(" ")[2]
            message = f"{line}: {error.message}" if line else error.message
            yield at.below(f"[{index}]").find(message, hint=error.hint)
