"""A tree of nodes as a section of a config, by the section's declaration.

Every mistake is noted with its place and the reading goes on, so that all are reported at once.
"""

import base64
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from talos.config.problem import ConfigError, Mark, Problem
from talos.config.read.nodes import MappingNode, Node, ScalarNode, SequenceNode, is_null, parse_integer, plain
from talos.config.schema import Field, Form, Section, Setting, Shape, fields_of
from talos.config.values import Text, Url

_TRUE = frozenset({"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"})
_WORDS = (_TRUE | _FALSE) - {"true", "True", "TRUE", "false", "False", "FALSE"}
"""Go's decoder takes these for a boolean, also in quotes; YAML 1.2 and a merged patch have them as texts."""
_SHOWN = 60  # characters of a value that a message repeats
_MAX_NAME = 64  # characters of a key that is compared with the known ones

MAX_PROBLEMS = 200
"""Reading ends here: a text of nothing but mistakes must not take minutes."""

_MERGE_HINT = "repeat the keys; <<: *name works in mappings whose keys are free"
_PATCH_HINT = 'only in patches, and only "$patch: delete"'

_USER = re.compile(r"(?<=://).*@", re.DOTALL)

_WRONG = object()
"""In place of a value that could not be read; the problem is noted."""


class SectionReader:
    """Reads one document and collects ``problems`` and ``marks``.

    ``problems`` may begin with those of other documents of the config. ``marks`` has the place of
    every value by its path. A ``partial`` document is a patch: nothing is required. A ``lenient``
    reader ignores unknown keys.
    """

    def __init__(
        self,
        *,
        document: str,
        source: str,
        partial: bool = False,
        lenient: bool = False,
        problems: list[Problem] | None = None,
    ) -> None:
        self.problems: list[Problem] = [] if problems is None else problems
        self.marks: dict[str, Mark] = {}
        self.document = document
        self._source = source
        self.partial = partial
        self._lenient = lenient

    def read(
        self, section: type[Section], node: Node, path: str = "", *, ignore: frozenset[str] = frozenset()
    ) -> Any:
        """The section, or None when something in it is wrong."""
        if not isinstance(node, MappingNode):
            self.record(f"expected a mapping, got {_describe(node)}", path, node.mark)
            return None
        before = len(self.problems)
        fields = fields_of(section)
        self._check_keys(node, fields, path, ignore)
        values: dict[str, Any] = {}
        for key, (_, value) in node.entries.items():
            field = fields.get(key)
            if field is None or key in ignore or is_null(value):
                continue
            below = f"{path}.{key}" if path else key
            self.marks[below] = value.mark
            read = self._value(value, field.shape, field.setting, below)
            if read is not _WRONG:
                values[field.name] = read
        if not self.partial:
            self._check_required(fields, values, path, node)
        if len(self.problems) > before:
            return None
        return values if self.partial else section(**values)

    def record(self, message: str, path: str, mark: Mark | None, *, hint: str = "") -> None:
        """Note a mistake.

        ConfigError: with all of them, when there are too many.
        """
        self.problems.append(
            Problem(
                message=message, path=path, document=self.document, mark=mark, hint=hint, source=self._source
            )
        )
        if len(self.problems) >= MAX_PROBLEMS:
            end = Problem(message=f"more than {MAX_PROBLEMS} mistakes, the rest is not read")
            raise ConfigError([*self.problems, end])

    def _check_required(
        self, fields: Mapping[str, Field], values: Mapping[str, Any], path: str, node: MappingNode
    ) -> None:
        for key, field in fields.items():
            if field.required and field.name not in values and not self._noted(path, key):
                below = f"{path}.{key}" if path else key
                self.record("is missing", below, node.mark, hint=field.setting.doc)

    def _noted(self, path: str, key: str) -> bool:
        below = f"{path}.{key}" if path else key
        return any(
            problem.path == below or problem.path.startswith((f"{below}.", f"{below}["))
            for problem in self.problems
        )

    def _check_keys(
        self, node: MappingNode, fields: Mapping[str, Field], path: str, ignore: frozenset[str]
    ) -> None:
        for key, (mark, _) in node.entries.items():
            if key not in fields and key not in ignore and not self._lenient:
                below = f"{path}.{key}" if path else key
                hint = _PATCH_HINT if key == "$patch" else did_you_mean(key, fields)
                self.record("unknown key", below, mark, hint=hint)
        if node.merge is not None and not self._lenient:
            self.record("unknown key", f"{path}.<<" if path else "<<", node.merge.mark, hint=_MERGE_HINT)
        self._check_duplicates(node, path)

    def _check_duplicates(self, node: MappingNode, path: str) -> None:
        for key, mark in node.duplicates:
            first = node.entries[key][0]
            below = f"{path}.{key}" if path else key
            self.record("duplicate key", below, mark, hint=f"first in line {first.line}")

    def _value(self, node: Node, shape: Shape, setting: Setting, path: str) -> Any:
        match shape.form:
            case Form.SCALAR:
                return self._scalar(node, shape.type, setting, path)
            case Form.SECTION:
                read = self.read(shape.type, node, path)
                return _WRONG if read is None else read
            case Form.LIST:
                return self._list(node, shape, setting, path)
            case Form.MAP:
                return self._map(
                    node, setting, path, lambda item, below: self._item(item, shape, setting, below)
                )
            case Form.FREE:
                return self._free(node, setting, path)
            case Form.ARGS:
                return self._map(
                    node, setting, path, lambda item, below: self._argument(item, setting, below)
                )

    def _list(self, node: Node, shape: Shape, setting: Setting, path: str) -> Any:
        if not isinstance(node, SequenceNode):
            self.record(
                f"expected a list, got {_show(node, setting)}",
                path,
                node.mark,
                hint="begin each item with -",
            )
            return _WRONG
        items: list[Any] = []
        for index, item in enumerate(node.items):
            below = f"{path}[{index}]"
            self.marks[below] = item.mark
            items.append(self._item(item, shape, setting, below))
        return _WRONG if any(item is _WRONG for item in items) else tuple(items)

    def _item(self, node: Node, shape: Shape, setting: Setting, path: str) -> Any:
        """An element of a list or map; null is the type's zero value, as for Go."""
        item = _item(shape)
        if is_null(node) and item.form in {Form.SCALAR, Form.SECTION}:
            return item.type() if item.form is Form.SCALAR or not self.partial else {}
        return self._value(node, item, setting, path)

    def _map(self, node: Node, setting: Setting, path: str, read: Callable[[Node, str], Any]) -> Any:
        if not isinstance(node, MappingNode):
            self.record(f"expected a mapping, got {_show(node, setting)}", path, node.mark)
            return _WRONG
        self._check_duplicates(node, path)
        if node.merge is not None and not node.merge.is_alias:
            self.record("a merge key takes an alias here", f"{path}[<<]", node.merge.mark, hint=_MERGE_HINT)
        values: dict[str, Any] = {}
        for key, (_, value) in node.entries.items():
            below = f"{path}[{key}]"
            self.marks[below] = value.mark
            values[key] = read(value, below)
        return _WRONG if any(value is _WRONG for value in values.values()) else values

    def _argument(self, node: Node, setting: Setting, path: str) -> Any:
        if isinstance(node, SequenceNode):
            return self._list(node, Shape(Form.LIST, tuple, Shape(Form.SCALAR, str)), setting, path)
        return self._scalar(node, str, setting, path)

    def _free(self, node: Node, setting: Setting, path: str) -> Any:
        if not isinstance(node, MappingNode):
            self.record(f"expected a mapping, got {_show(node, setting)}", path, node.mark)
            return _WRONG
        before = len(self.problems)
        self._check_below(node, (path,))
        return plain(node) if len(self.problems) == before else _WRONG

    def _check_below(self, node: Node, parts: tuple[str, ...]) -> None:
        # The path is joined where it is needed only: with long keys the joined ones take gigabytes.
        if isinstance(node, MappingNode):
            if node.duplicates:
                self._check_duplicates(node, "".join(parts))
            for key, (_, value) in node.entries.items():
                if not isinstance(value, ScalarNode):
                    self._check_below(value, (*parts, f".{key}"))
        elif isinstance(node, SequenceNode):
            for index, item in enumerate(node.items):
                if not isinstance(item, ScalarNode):
                    self._check_below(item, (*parts, f"[{index}]"))

    def _scalar(self, node: Node, wanted: type[Any], setting: Setting, path: str) -> Any:
        def refuse(message: str, hint: str = "") -> Any:
            self.record(message, path, node.mark, hint=hint)
            return _WRONG

        shown = _show(node, setting)
        if not isinstance(node, ScalarNode):
            return refuse(f"expected {_expected(wanted)}, got {shown}")
        if wanted is bool:
            if node.value in (_TRUE | _FALSE if node.plain else _WORDS):
                return node.value in _TRUE
            return refuse(f"expected true or false, got {shown}")
        if issubclass(wanted, int):
            # Go's decoder accepts 6443.0 as an integer, too.
            text = node.value.rstrip("0").removesuffix(".") if ".0" in node.value else node.value
            number = parse_integer(text) if node.plain else None
            if number is None:
                return refuse(f"expected a number, got {shown}")
            if setting.bounds and not setting.bounds[0] <= number <= setting.bounds[1]:
                return refuse(f"{number} is out of range", f"from {setting.bounds[0]} to {setting.bounds[1]}")
            return wanted(number)
        if wanted is bytes:
            try:
                return base64.b64decode(node.value, validate=True)
            except ValueError:
                return refuse("expected base64", "the whole PEM block, encoded on one line")
        return self._text(node.value, wanted, setting, refuse)

    def _text(self, text: str, wanted: type[Any], setting: Setting, refuse: Callable[..., Any]) -> Any:
        is_url = issubclass(wanted, Url)
        shown = "the secret" if setting.secret else f'"{_shorten(_hide_secrets(text) if is_url else text)}"'
        if setting.allowed and text not in setting.allowed:
            near = did_you_mean(text, setting.allowed)
            choices = "one of: " if len(setting.allowed) > 1 else "only "
            listed = choices + ", ".join(filter(None, setting.allowed))
            return refuse(f"{shown} is not allowed", "; ".join(part for part in (near, listed) if part))
        if not issubclass(wanted, Text):
            return text
        if text == "" and wanted.may_be_empty:
            return wanted(text)
        try:
            value = wanted.parse(text)
        except ValueError as error:
            return refuse(
                f"expected {wanted.expected}, got {shown}",
                "" if is_url or wanted.expected in str(error) else str(error),
            )
        if setting.schemes and isinstance(value, Url) and value.scheme not in setting.schemes:
            return refuse(
                f"{shown} has the wrong scheme",
                f"begins with {' or '.join(f'{scheme}://' for scheme in setting.schemes)}",
            )
        return value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, empty when none is near."""
    if len(name) > _MAX_NAME:
        return ""
    names = {known_name.lower(): known_name for known_name in known}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return f'did you mean "{names[near[0]]}"?' if near else ""


def _item(shape: Shape) -> Shape:
    assert shape.item is not None
    return shape.item


def _expected(wanted: type[Any]) -> str:
    if wanted is bool:
        return "true or false"
    if issubclass(wanted, Text):
        return wanted.expected
    if issubclass(wanted, int):
        return "a number"
    return "a text"


def _show(node: Node, setting: Setting) -> str:
    return "a secret" if setting.secret else _describe(node)


def _describe(node: Node) -> str:
    match node:
        case MappingNode():
            return "a mapping"
        case SequenceNode():
            return "a list"
        case ScalarNode() if is_null(node):
            return "nothing"
        case ScalarNode():
            return f'"{_shorten(node.value)}"'


def _hide_secrets(url: str) -> str:
    """A URL that may not be one, up to its query: what may be a password or a token is left out."""
    return _USER.sub("", url).partition("?")[0]


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"
