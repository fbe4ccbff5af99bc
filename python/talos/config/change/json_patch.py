"""JSON patch, RFC 6902, on plain data.

parse_operations([{"op": "add", "path": "/a/b", "value": 1}]) -> tuple[Operation, ...]
apply_operations(document, operations) -> the changed copy
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from talos.config.problem import ConfigError, Problem

_NEEDS = {
    "add": {"value"},
    "replace": {"value"},
    "test": {"value"},
    "remove": set[str](),
    "move": {"from"},
    "copy": {"from"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One step. Paths are lists of unescaped reference tokens."""

    op: str
    path: tuple[str, ...]
    source: tuple[str, ...] = ()
    value: Any = None


class _PatchError(Exception):
    pass


def parse_operations(items: Sequence[Any], *, source: str = "patch") -> tuple[Operation, ...]:
    """Read the operations.

    Raises:
        ConfigError: with everything that is no operation.
    """
    operations: list[Operation] = []
    problems: list[Problem] = []
    for index, item in enumerate(items):
        try:
            operations.append(_parse(item))
        except _PatchError as error:
            problems.append(Problem(message=str(error), path=f"[{index}]", source=source))
    if problems:
        raise ConfigError(problems)
    return tuple(operations)


def apply_operations(document: Any, operations: Sequence[Operation], *, source: str = "patch") -> Any:
    """The document after all operations; the given one stays as it is.

    Raises:
        ConfigError: at the first operation that does not fit.
    """
    result = copy.deepcopy(document)
    for index, operation in enumerate(operations):
        try:
            result = _apply(result, operation)
        except _PatchError as error:
            path = "/" + "/".join(operation.path)
            problem = Problem(message=str(error), path=f"[{index}] {operation.op} {path}", source=source)
            raise ConfigError([problem]) from None
    return result


def _parse(item: Any) -> Operation:
    if not isinstance(item, dict):
        raise _PatchError("expected an operation with op and path")
    fields = cast("dict[str, Any]", item)
    op = fields.get("op")
    if op not in _NEEDS:
        raise _PatchError(f'op "{op}" is not allowed (one of: {", ".join(_NEEDS)})')
    missing = ({"path"} | _NEEDS[op]) - fields.keys()
    if missing:
        raise _PatchError(f"{min(missing)} is missing")
    return Operation(
        op=op,
        path=_parse_pointer(fields["path"]),
        source=_parse_pointer(fields["from"]) if "from" in _NEEDS[op] else (),
        value=fields.get("value"),
    )


def _parse_pointer(text: Any) -> tuple[str, ...]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _PatchError(f'"{text}" is no JSON pointer (it begins with /)')
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def _apply(document: Any, operation: Operation) -> Any:
    match operation.op:
        case "add":
            return _add(document, operation.path, operation.value)
        case "remove":
            return _remove(document, operation.path)
        case "replace":
            _get(document, operation.path)
            return _add(_remove(document, operation.path), operation.path, operation.value)
        case "move":
            value = _get(document, operation.source)
            return _add(_remove(document, operation.source), operation.path, value)
        case "copy":
            return _add(document, operation.path, copy.deepcopy(_get(document, operation.source)))
        case _:
            if _get(document, operation.path) != operation.value:
                raise _PatchError("the value is another one")
            return document


def _get(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        if isinstance(document, list):
            items = cast("list[Any]", document)
            document = items[_index(items, part)]
        else:
            document = _entry(document, part)
    return document


def _add(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return copy.deepcopy(value)
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        items = cast("list[Any]", parent)
        at = len(items) if path[-1] == "-" else _index(items, path[-1], extra=1)
        items.insert(at, copy.deepcopy(value))
    elif isinstance(parent, dict):
        parent[path[-1]] = copy.deepcopy(value)
    else:
        raise _PatchError("the path leads into a value that is neither mapping nor list")
    return document


def _remove(document: Any, path: Sequence[str]) -> Any:
    if not path:
        return None
    _get(document, path)
    parent = _get(document, path[:-1])
    if isinstance(parent, list):
        del parent[_index(cast("list[Any]", parent), path[-1])]
    else:
        del parent[path[-1]]
    return document


def _entry(document: Any, part: str) -> Any:
    if not isinstance(document, dict) or part not in document:
        raise _PatchError(f'there is no "{part}"')
    return cast("dict[str, Any]", document)[part]


def _index(items: list[Any], part: str, *, extra: int = 0) -> int:
    if not part.isdecimal() or int(part) >= len(items) + extra:
        raise _PatchError(f'there is no item "{part}"')
    return int(part)
