"""Expressions in configs are compiled when the config is checked, not at their first use."""

from collections.abc import Iterator

from talos.config.check.note import Note
from talos.system.errors import UserError


def check_expression(
    text: str | None, environment: str, at: Note, *, required: bool = False
) -> Iterator[Note]:
    """An expression of an environment, by its name in talos.config.cel.environments."""
    # A config rarely has one, and its names take the API's messages.
    if not text:
        if required:
            yield at.find("is missing", hint="an expression that chooses")
        return
    from talos.config.cel import environments
    from talos.config.cel.compile import compile_expression
    from talos.config.cel.types import BOOL, DOUBLE

    result = DOUBLE if environment == "OOM_RANKING" else BOOL
    try:
        compile_expression(text, getattr(environments, environment), where="", result=result)
    except UserError as error:
        yield at.find(error.message, hint=error.hint)
