"""JSONPath templates as print columns and ``-o jsonpath`` use them.

The dialect is Kubernetes': text with ``{...}`` in it; paths of fields, indices, slices, ``[*]``,
``..name`` and filters ``[?(@.a=="b")]``; quoted text; ``{range path}...{end}``. A path that leads
nowhere is empty, not an error.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from talos.system.errors import UserError

_STEP = re.compile(
    r"""\.\.(?P<deep>[\w\-/$]+)
      |\.(?P<field>(?:[\w\-/$]|\\.)+|\*)
      |\[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]
      |\[\?\((?P<filter>.*?)\)\]
      |\[(?P<index>\*|-?\d{1,9})\]
      |\[(?P<slice>(?:-?\d{1,9})?:(?:-?\d{1,9})?(?::-?[1-9]\d{0,8})?)\]
      |(?P<nothing>\.)(?=$|\[)""",
    re.VERBOSE,
)
_FILTER = re.compile(r"^\s*(?P<left>@[^\s=!<>]*)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>.+?))?\s*$")
MAX_LENGTH = 16384
"""Characters of a template: a node's columns are some, too."""
MAX_RANGES = 16
"""How deep one range may be in others."""
MAX_FOUND = 100_000
"""Values that a path finds, twice as many as a document may have: `..a..a` finds some of them again."""


def _compare(left: object, operator: str, right: object) -> bool:
    if operator == "==":
        return left == right
    if operator == "!=":
        return left != right
    if not isinstance(left, int | float | str) or not isinstance(right, type(left)):
        return False
    low, high = cast("tuple[float, float]", (left, right))
    return {"<": low < high, "<=": low <= high, ">": low > high, ">=": low >= high}[operator]


@dataclass(frozen=True, slots=True)
class _Text:
    text: str


@dataclass(frozen=True, slots=True)
class _Path:
    text: str


@dataclass(frozen=True, slots=True)
class _Range:
    path: str
    body: tuple["_Node", ...]


type _Node = _Text | _Path | _Range


class Template:
    """A parsed template."""

    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > MAX_LENGTH:
            raise UserError(f"a template of {len(text)} characters, {MAX_LENGTH} are allowed")
        self._nodes = self._parse(_split(text), depth=0)

    def _error(self, message: str) -> UserError:
        return UserError(
            message, where=f"jsonpath {self._text}", hint="write for example {.spec.addresses[*]}"
        )

    def _parse(self, tokens: Iterator[tuple[bool, str]], *, depth: int) -> tuple[_Node, ...]:
        """What comes up to the end of a range, or of all."""
        nodes: list[_Node] = []
        for is_action, text in tokens:
            if not is_action:
                nodes.append(_Text(text))
                continue
            action = text.strip()
            if action == "end":
                if not depth:
                    raise self._error("{end} without {range}")
                return tuple(nodes)
            if action.startswith("range "):
                if depth == MAX_RANGES:
                    raise self._error(f"{{range}} in {MAX_RANGES} others")
                path = self._checked(action.removeprefix("range ").strip())
                nodes.append(_Range(path, self._parse(tokens, depth=depth + 1)))
            elif action[:1] in {'"', "'"}:
                try:
                    nodes.append(_Text(str(json.loads('"' + action[1:-1].replace('"', '\\"') + '"'))))
                except ValueError:
                    raise self._error(f"{action} is no quoted text") from None
            else:
                nodes.append(_Path(self._checked(action)))
        if depth:
            raise self._error("{range} without {end}")
        return tuple(nodes)

    def _checked(self, path: str) -> str:
        position = len(path) - len(path.lstrip("@$"))
        rest = path[position:]
        if rest and rest[0] not in ".[":
            rest = "." + rest
        while rest:
            step = _STEP.match(rest)
            if not step:
                raise self._error(f"can't read {rest}")
            rest = rest[step.end() :]
        return path

    def values(self, root: object) -> list[object]:
        """What the template's paths find, in order."""
        return [
            value for node in self._nodes if isinstance(node, _Path) for value in find(root, root, node.text)
        ]

    def render(self, root: object) -> str:
        """The template with its paths replaced by what they find."""
        return _render(self._nodes, root, root)


def _render(nodes: Sequence[_Node], root: object, here: object) -> str:
    out: list[str] = []
    for node in nodes:
        match node:
            case _Text(text):
                out.append(text)
            case _Path(path):
                out.append(" ".join(_format_result(value) for value in find(root, here, path)))
            case _Range(path, body):
                out.extend(_render(body, root, item) for item in find(root, here, path))
    return "".join(out)


def _split(text: str) -> Iterator[tuple[bool, str]]:
    """Text and actions; a brace inside quotes does not end an action."""
    position = 0
    while position < len(text):
        start = text.find("{", position)
        if start < 0:
            yield False, text[position:]
            return
        if start > position:
            yield False, text[position:start]
        end, quote = start + 1, ""
        while end < len(text) and (quote or text[end] != "}"):
            if text[end] in "'\"" and quote in {"", text[end]}:
                quote = "" if quote else text[end]
            end += 1
        if end >= len(text):
            raise UserError("a { is not closed", where=f"jsonpath {text}")
        yield True, text[start + 1 : end]
        position = end + 1


def find(root: object, here: object, path: str) -> list[object]:
    """What a path leads to; ``$`` begins at the root, all else at the current value."""
    values = [root if path.startswith("$") else here]
    rest = path.lstrip("@$")
    if rest and rest[0] not in ".[":
        rest = "." + rest
    while rest:
        step = _STEP.match(rest)
        if not step:
            return []
        every = (found for value in values for found in _step(value, step, root))
        values = list(islice(every, MAX_FOUND + 1))
        if len(values) > MAX_FOUND:
            raise UserError(f"finds more than {MAX_FOUND} values", where=f"jsonpath {path}")
        rest = rest[step.end() :]
    return values


def _step(value: object, step: re.Match[str], root: object) -> Iterable[object]:
    kind = step.lastgroup or ""
    text = step[kind]
    match kind:
        case "field" | "quoted":
            name = text[1:-1] if kind == "quoted" else text
            return children(value) if name == "*" else _field(value, re.sub(r"\\(.)", r"\1", name))
        case "deep":
            return (found for inner in _descend(value) for found in _field(inner, text))
        case "index" | "slice":
            return _index(value, text)
        case "filter":
            return [item for item in children(value) if _passes(item, text, root)]
        case _:
            return [value]


def _field(value: object, name: str) -> list[object]:
    if isinstance(value, dict):
        mapping = cast("dict[object, object]", value)
        return [mapping[name]] if name in mapping else []
    return []


def children(value: object) -> list[object]:
    """The items of a list, or a mapping's values."""
    if isinstance(value, dict):
        return list(cast("dict[object, object]", value).values())
    return list(cast("list[object]", value)) if isinstance(value, list) else []


def _descend(value: object) -> Iterator[object]:
    yield value
    for item in children(value):
        yield from _descend(item)


def _index(value: object, text: str) -> list[object]:
    if text == "*":
        return children(value)
    if not isinstance(value, list):
        return []
    items = cast("list[object]", value)
    if ":" in text:
        bounds = [int(part) if part else None for part in text.split(":")]
        return items[slice(*bounds)]
    position = int(text)
    return [items[position]] if -len(items) <= position < len(items) else []


def _passes(item: object, condition: str, root: object) -> bool:
    parsed = _FILTER.match(condition)
    if not parsed:
        return False
    left = find(root, item, parsed["left"])
    if not parsed["operator"]:
        return bool(left)
    text = parsed["right"]
    if text[:1] in {"'", '"'}:
        right: object = text[1:-1]
    elif text[:1] in {"@", "$"}:
        found = find(root, item, text)
        right = found[0] if found else None
    else:
        try:
            right = json.loads(text)
        except (ValueError, RecursionError):
            right = text
    return bool(left) and _compare(left[0], parsed["operator"], right)


def _format_result(value: object) -> str:
    """A list or a mapping is JSON in lines, its keys sorted, as upstream's."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, indent=4, sort_keys=True)
    return format_value(value)


def format_value(value: object) -> str:
    """A value as a table's cell: text as it is, lists and mappings as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
