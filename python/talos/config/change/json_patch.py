"""JSON patches (RFC 6902) on plain data, by the library ``jsonpatch``, with the place of a mistake.

The library is on the workstation only: a node merges, it never applies JSON patches.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from jsonpatch import JsonPatch, JsonPatchException, JsonPatchTestFailed, JsonPointerException

from talos.config.problem import ConfigError, Problem
from talos.system.errors import lower_first

type Operation = Mapping[str, Any]


def parse_operations(items: Sequence[Any], *, source: str = "patch") -> tuple[Operation, ...]:
    """Read the operations, such as ``[{"op": "add", "path": "/a/b", "value": 1}]``.

    ConfigError: with every invalid operation.
    """
    problems: list[Problem] = []
    for index, item in enumerate(items):
        message = _check(item)
        if message:
            problems.append(Problem(message=message, path=f"[{index}]", source=source))
    if problems:
        raise ConfigError(problems)
    return tuple(items)


def apply_operations(document: Any, operations: Sequence[Operation], *, source: str = "patch") -> Any:
    """The document after all operations; the given one stays as it is.

    ConfigError: at the first operation that does not fit.
    """
    for index, operation in enumerate(operations):
        try:
            document = JsonPatch([operation]).apply(document)
        except (JsonPatchException, JsonPointerException, TypeError) as error:
            place = f"[{index}] {operation['op']} {operation['path']}"
            raise ConfigError([Problem(message=_describe(error), path=place, source=source)]) from None
    return document


def _check(item: Any) -> str:
    """The mistake in an operation, empty for none."""
    if not isinstance(item, dict):
        return "expected an operation with op and path"
    try:
        JsonPatch([cast("Operation", item)])
    except (JsonPatchException, JsonPointerException, TypeError) as error:
        return lower_first(str(error))
    return ""


def _describe(error: Exception) -> str:
    """The library's text, except where it repeats values of the document, which may be secrets."""
    match error:
        case JsonPatchTestFailed():
            return "the value is another one"
        case JsonPointerException():
            return "the path leads to nothing"
        case _:
            return lower_first(str(error))
