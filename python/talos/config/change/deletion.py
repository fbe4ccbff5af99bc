"""Deletions in a patch: the mappings with ``$patch: delete``.

    split_deletions(node, source) -> (the rest of the document, its deletions)
    delete(document_type, plain, deletion)

A deletion names a key by its place, or an item of a list by the values beside ``$patch``. All of a
document's deletions come before its merge, so that a patch can replace what it deletes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeIs, cast

from talos.config.problem import ConfigError, Mark, Problem
from talos.config.read.nodes import MappingNode, Node, ScalarNode, SequenceNode
from talos.config.schema import Section, fields_of, section_at

PATCH_KEY = "$patch"

type Plain = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """One deletion: of the document when ``path`` is empty, a key, or the item that matches of a list."""

    path: tuple[str, ...]
    item: Mapping[str, str] = field(default_factory=dict[str, str])
    mark: Mark
    source: str


def split_deletions(node: MappingNode, source: str) -> tuple[MappingNode | None, list[Deletion]]:
    """Split a document into what is merged, None when empty, and its deletions.

    ConfigError: at a deletion that can't be carried out.
    """
    deletions: list[Deletion] = []
    rest = _strip(node, (), False, source, deletions)
    return cast("MappingNode | None", rest), deletions


def delete(section: type[Section], document: Plain, deletion: Deletion, *, label: str) -> None:
    """Carry out a deletion inside of a document.

    ConfigError: when there is nothing to delete.
    """
    if not _delete(section, document, deletion):
        path = ".".join(deletion.path)
        raise ConfigError(
            [
                Problem(
                    message="there is nothing to delete",
                    path=f"{path}[]" if deletion.item else path,
                    document=label,
                    mark=deletion.mark,
                    source=deletion.source,
                )
            ]
        )


def _strip(
    node: Node, path: tuple[str, ...], in_list: bool, source: str, found: list[Deletion]
) -> Node | None:
    """The node without its deletions; None when nothing is left."""
    match node:
        case ScalarNode():
            return node
        case SequenceNode():
            return _strip_items(node, path, in_list, source, found)
        case MappingNode() if _is_deletion(node):
            if in_list:
                raise _refuse("a key inside of a list's item can't be deleted", path, node, source)
            found.append(Deletion(path=path, mark=node.mark, source=source))
            return None
        case MappingNode():
            entries: dict[str, tuple[Mark, Node]] = {}
            for key, (mark, value) in node.entries.items():
                rest = _strip(value, (*path, key), in_list, source, found)
                if rest is not None:
                    entries[key] = (mark, rest)
            if node.entries and not entries:
                return None
            duplicates = [(key, mark) for key, mark in node.duplicates if key in entries]
            return MappingNode(node.mark, entries, duplicates, node.merge)


def _strip_items(
    node: SequenceNode, path: tuple[str, ...], in_list: bool, source: str, found: list[Deletion]
) -> Node | None:
    kept: list[Node] = []
    for item in node.items:
        if _is_deletion(item):
            found.append(_item_deletion(item, path, in_list, source))
        elif (rest := _strip(item, path, True, source, found)) is not None:
            kept.append(rest)
    return SequenceNode(node.mark, kept) if kept or not node.items else None


def _is_deletion(node: Node) -> TypeIs[MappingNode]:
    if not isinstance(node, MappingNode) or PATCH_KEY not in node.entries:
        return False
    instruction = node.entries[PATCH_KEY][1]
    return isinstance(instruction, ScalarNode) and instruction.value == "delete"


def _item_deletion(node: MappingNode, path: tuple[str, ...], in_list: bool, source: str) -> Deletion:
    item = {
        key: value.value
        for key, (_, value) in node.entries.items()
        if key != PATCH_KEY and isinstance(value, ScalarNode)
    }
    if in_list:
        raise _refuse("an item of a list inside of a list's item can't be deleted", path, node, source)
    if not item:
        raise _refuse("no item is named", path, node, source, "put a key of the item beside $patch")
    return Deletion(path=path, item=item, mark=node.mark, source=source)


def _refuse(message: str, path: tuple[str, ...], node: Node, source: str, hint: str = "") -> ConfigError:
    hint = hint or "delete the whole item and add it anew"
    return ConfigError(
        [Problem(message=message, path=".".join(path), mark=node.mark, source=source, hint=hint)]
    )


def _delete(section: type[Section], document: Plain, deletion: Deletion) -> bool:
    *above, last = deletion.path
    parent: Any = document
    for key in above:
        parent = cast("Plain", parent).get(key) if isinstance(parent, dict) else None
    if not isinstance(parent, dict):
        return False
    holder = cast("Plain", parent)
    if deletion.item:
        return _delete_item(holder.get(last), deletion.item)
    declared = section_at(section, tuple(above))
    if declared is not None and last in fields_of(declared):
        holder.pop(last, None)
        return True
    return holder.pop(last, None) is not None


def _delete_item(items: Any, values: Mapping[str, str]) -> bool:
    if not isinstance(items, list):
        return False
    entries = cast("list[Any]", items)
    for index, item in enumerate(entries):
        if isinstance(item, dict) and all(
            _text(cast("Plain", item).get(key)) == text for key, text in values.items()
        ):
            del entries[index]
            return True
    return False


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
