"""YAML as trees of :mod:`talos.config.read.nodes`.

The parser's events are composed here, without recursion, so that hostile input ends in an
error: too large, too deep, aliases that contain themselves or multiply. The limits make the work
linear in the text, which unauthenticated clients may send. Duplicate keys, merge keys (``<<``) and what
the resolver of YAML 1.1 would guess (``off`` is a text, not false) are treated as Go's yaml.v3 does,
because that is what config files are written for.
"""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from talos.config.problem import ConfigError, Mark, Problem
from talos.config.read.nodes import NULLS, MappingNode, Merge, Node, ScalarNode, SequenceNode

MAX_BYTES = 11 * 1024 * 1024
"""Of a config with its comments and all documents: a third of the API's largest message passes."""

MAX_TEXT = 8 * 1024 * 1024
"""Characters of its texts with aliases expanded, without comments. A generated one has about 20 KiB; with the
definitions of a cluster's resources as manifests it has megabytes."""

MAX_DEPTH = 100
"""Nesting with aliases expanded; Kubernetes objects inside a config reach about 20."""

MAX_NODES = 50_000
"""Nodes of all documents with their aliases expanded; a generated config has about 1,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a text may be."""

    bytes: int = MAX_BYTES
    text: int = MAX_TEXT
    nodes: int = MAX_NODES


MAX_KEY = 512
"""Characters of a key. The place of every value below repeats it."""

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_YAML: Any = yaml  # its annotations are partial
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_documents(text: str | bytes, *, source: str = "", size: Size = Size()) -> list[Node]:
    """Compose every document of a stream; empty ones are left out.

    ConfigError: when it is not YAML or exceeds the limits.
    """

    def refuse(message: str, mark: Mark | None = None, hint: str = "") -> ConfigError:
        return ConfigError([Problem(message=message, mark=mark, hint=hint, source=source)])

    if len(text) > size.bytes:
        raise refuse(f"{len(text)} bytes are too many", hint=f"at most {size.bytes}")
    if isinstance(text, bytes):
        try:
            text = to_utf8(text).decode()
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            column = error.start - (text.rfind(b"\n", 0, error.start) + 1) + 1
            raise refuse("the text is not UTF-8", Mark(line, column), "save it as UTF-8") from error
    composer = _Composer(refuse, size)
    try:
        for event in _YAML.parse(text, Loader=_LOADER):
            composer.feed(event)
    except yaml.YAMLError as error:
        reason, place = _explain(text, error)
        raise refuse(f"no valid YAML: {reason}", place) from error
    return composer.documents


def to_utf8(text: bytes) -> bytes:
    """The text as it is, but UTF-16 with its mark, as shells of Windows write files and YAML's readers take.

    UnicodeDecodeError: when it is not what its mark stands for.
    """
    return text.decode("utf-16").encode() if text.startswith(_UTF16_MARKS) else text


def _explain(text: str, error: Any) -> tuple[str, Mark | None]:
    """The parser's reason and its place: the scanner has marks, the reader has a position."""
    if isinstance(error, yaml.MarkedYAMLError):
        known: Any = error
        mark = known.problem_mark or known.context_mark
        return known.problem or known.context, Mark(mark.line + 1, mark.column + 1) if mark else None
    position = getattr(error, "position", None)
    place = _mark_of(text, position) if isinstance(position, int) else None
    return getattr(error, "reason", None) or " ".join(str(error).split()), place


def _mark_of(text: str, position: int) -> Mark:
    return Mark(text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))


@dataclass(slots=True)
class _Open:
    """An unfinished collection."""

    node: SequenceNode | MappingNode
    anchor: str | None
    key: tuple[str | None, Mark] | None = None
    """Of the next value; None and a place for a merge key."""
    merged: Sequence[MappingNode] | None = None
    """The mappings of its merge key."""


YAML_VERSION = (1, 1)
_MERGE = "<<"


class _Composer:
    """Builds nodes from events."""

    def __init__(self, refuse: Callable[..., ConfigError], maximum: Size) -> None:
        self._max_nodes = maximum.nodes
        self._max_text = maximum.text
        self.documents: list[Node] = []
        self._refuse = refuse
        self._stack: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}
        self._weight = self._size = 0

    def feed(self, event: Any) -> None:
        kind: object = event
        match kind:
            case yaml.ScalarEvent():
                is_plain = event.implicit[0] and not event.tag
                node = ScalarNode(event.value, self._mark(event), plain=is_plain, size=len(event.value))
                self._add(node, event.anchor)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._push(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                opened = self._stack.pop()
                _merge(opened)
                self._add(opened.node, opened.anchor)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.DocumentStartEvent():
                # As upstream's reader of 1.1; the versions differ in what a bare word means.
                if event.version not in {None, YAML_VERSION}:
                    raise self._refuse(
                        "this is another version of YAML", self._mark(event), "write %YAML 1.1"
                    )
                self._anchors.clear()
            case _:
                pass

    def _push(self, event: Any) -> None:
        mark = self._mark(event)
        if len(self._stack) >= MAX_DEPTH:
            raise self._refuse("nested too deeply", mark, f"at most {MAX_DEPTH} levels")
        if self._stack and isinstance(self._stack[-1].node, MappingNode) and self._stack[-1].key is None:
            raise self._refuse("a key must be a text", mark)
        if event.anchor:
            self._anchors[event.anchor] = None
        started: object = event
        node = MappingNode(mark) if isinstance(started, yaml.MappingStartEvent) else SequenceNode(mark)
        self._stack.append(_Open(node, event.anchor))

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            # Its name is not repeated: a password may begin with an asterisk.
            hint = "quote a text that begins with *"
            raise self._refuse("an alias refers to nothing", self._mark(event), hint)
        node = self._anchors[event.anchor]
        if node is None:
            raise self._refuse(f"alias *{event.anchor} contains itself", self._mark(event))
        self._add(node, None, mark=self._mark(event))

    def _add(self, node: Node, anchor: str | None, *, mark: Mark | None = None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if not self._stack:
            self._weight += node.weight
            self._size += node.size
            if self._weight > self._max_nodes:
                raise self._refuse("too many documents", node.mark, f"at most {self._max_nodes} values")
            if not (isinstance(node, ScalarNode) and node.plain and node.value in NULLS):
                self.documents.append(node)
            return
        parent = self._stack[-1]
        self._count(parent, node, mark or node.mark)
        if isinstance(parent.node, SequenceNode):
            parent.node.items.append(node)
        elif parent.key is None:
            parent.key = self._make_key(node, mark or node.mark)
        else:
            self._add_entry(parent, node, is_alias=mark is not None)

    def _count(self, parent: _Open, node: Node, mark: Mark) -> None:
        """Add the node's size to that of the collection around it."""
        parent.node.weight += node.weight
        parent.node.size += node.size
        if self._size + parent.node.size > self._max_text:
            message = "too much text, aliases counted as often as they are used"
            raise self._refuse(message, mark, f"at most {self._max_text} characters")
        parent.node.depth = max(parent.node.depth, node.depth + 1)
        if self._weight + parent.node.weight > self._max_nodes:
            raise self._refuse(
                "too many values, aliases counted as often as they are used",
                mark,
                f"at most {self._max_nodes}",
            )
        if len(self._stack) + node.depth > MAX_DEPTH:
            raise self._refuse("nested too deeply", mark, f"at most {MAX_DEPTH} levels")

    def _make_key(self, node: Node, mark: Mark) -> tuple[str | None, Mark]:
        if not isinstance(node, ScalarNode):
            raise self._refuse("a key must be a text", mark)
        if node.plain and node.value == _MERGE:
            return None, mark
        if len(node.value) > MAX_KEY:
            raise self._refuse("the key is too long", mark, f"at most {MAX_KEY} characters")
        return node.value, mark

    def _add_entry(self, parent: _Open, node: Node, *, is_alias: bool) -> None:
        assert isinstance(parent.node, MappingNode)
        assert parent.key is not None
        key, mark = parent.key
        parent.key = None
        if key is None:
            if parent.merged is not None:
                raise self._refuse("a second merge key", mark, "<<: [*a, *b] merges several")
            parent.merged = self._find_mappings(node, mark)
            parent.node.merge = Merge(mark, is_alias)
        elif key in parent.node.entries:
            parent.node.duplicates.append((key, mark))
        else:
            parent.node.entries[key] = (mark, node)

    def _find_mappings(self, node: Node, mark: Mark) -> Sequence[MappingNode]:
        items = node.items if isinstance(node, SequenceNode) else [node]
        found = [item for item in items if isinstance(item, MappingNode)]
        if len(found) != len(items):
            raise self._refuse("<< takes a mapping or a list of mappings", mark)
        return found

    @staticmethod
    def _mark(event: Any) -> Mark:
        return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


def _merge(opened: _Open) -> None:
    """Add the entries of the merge key: the mapping's own come first, then those of earlier mappings.

    Each was counted with the mapping that it is from.
    """
    if opened.merged is not None:
        assert isinstance(opened.node, MappingNode)
        for mapping in opened.merged:
            for key, entry in mapping.entries.items():
                opened.node.entries.setdefault(key, entry)
