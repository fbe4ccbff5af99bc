"""Config patches: strategic merge and JSON patch.

    patches = [parse_patch(text, source="patch.yaml"), ...]      raises ConfigError
    text = apply_patches(config_text, patches, source="controlplane.yaml")

A patch is a config with a part of the documents and keys. Mappings merge; lists are
appended, replaced, or merged by a key, as their declaration says; ``$patch: delete`` removes
the document, section or list item it stands in. A list at the top is a JSON patch (RFC 6902),
which only fits a config of one document.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from talos.config.change.json_patch import Operation, apply_operations, parse_operations
from talos.config.documents.registry import MODULES, document_type
from talos.config.problem import ConfigError, Problem
from talos.config.read.loader import dump, dump_plain, load, read_document
from talos.config.read.reader import PATCH_KEY, SectionReader
from talos.config.read.tree import Node, SequenceNode, parse_documents, plain
from talos.config.schema import Form, Merge, Section, Setting, Shape, fields_of
from talos.config.write.plain import to_plain

type Plain = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategicPatch:
    """Parts of documents to merge."""

    documents: tuple[Plain, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPatch:
    """Operations on one document."""

    operations: tuple[Operation, ...]
    source: str = ""


type Patch = StrategicPatch | JsonPatch


def parse_patch(text: str | bytes, *, source: str = "patch") -> Patch:
    """Read a patch of either kind, strictly.

    Raises:
        ConfigError: with every unknown key and every value of the wrong type.
    """
    nodes = parse_documents(text, source=source)
    if len(nodes) == 1 and isinstance(nodes[0], SequenceNode):
        return JsonPatch(operations=parse_operations(plain(nodes[0]), source=source), source=source)
    problems: list[Problem] = []
    for node in nodes:
        problems += _check(node, source)
    if problems:
        raise ConfigError(problems)
    return StrategicPatch(documents=tuple(plain(node) for node in nodes))


def apply_patches(text: str | bytes, patches: Sequence[Patch], *, source: str = "") -> str:
    """The config's text after all patches, checked again.

    Raises:
        ConfigError: when the config or the outcome is wrong.
    """
    config = load(text, source=source)
    if not patches:
        return text if isinstance(text, str) else text.decode()
    documents = [to_plain(document) for document in config.documents]
    for patch in patches:
        if isinstance(patch, JsonPatch):
            documents = _apply_json(documents, patch)
        else:
            documents = merge_documents(documents, patch.documents)
    return dump(load(dump_plain(documents), source="the patched config"))


def merge_documents(base: Sequence[Plain], patches: Sequence[Plain]) -> list[Plain]:
    """Merge documents into others of the same kind and name; the rest is added at the end."""
    result = [copy.deepcopy(document) for document in base]
    for patch in patches:
        index = next((at for at, document in enumerate(result) if _id(document) == _id(patch)), None)
        if patch.get(PATCH_KEY) == "delete":
            if index is not None:
                del result[index]
        elif index is None:
            result.append(_without_instructions(patch))
        else:
            merge_section(_type_of(patch), result[index], patch)
    return result


def merge_section(section: type[Section], base: Plain, patch: Plain) -> None:
    """Merge a part of a section into it, in place."""
    fields = fields_of(section)
    for key, value in patch.items():
        field = fields.get(key)
        if field is None or value is None:
            continue
        if _is_deletion(value):
            base.pop(key, None)
        elif base.get(key) is None:
            base[key] = _without_instructions(value)
        else:
            base[key] = _merge_value(base[key], value, field.shape, field.setting)


def _merge_value(base: Any, patch: Any, shape: Shape, setting: Setting) -> Any:
    if setting.merge is Merge.REPLACE:
        return _without_instructions(patch)
    if shape.form is Form.SECTION:
        merge_section(shape.type, base, patch)
        return base
    if isinstance(base, dict) and isinstance(patch, dict):
        return _merge_mapping(cast("Plain", base), cast("Plain", patch), shape, setting)
    if isinstance(base, list) and isinstance(patch, list) and shape.form is not Form.ARGS:
        return _merge_list(cast("list[Any]", base), cast("list[Any]", patch), shape, setting)
    return _without_instructions(patch)


def _merge_mapping(base: Plain, patch: Plain, shape: Shape, setting: Setting) -> Plain:
    item = shape.item or shape
    for key, value in patch.items():
        if _is_deletion(value):
            base.pop(key, None)
        elif base.get(key) is None:
            base[key] = _without_instructions(value)
        else:
            base[key] = _merge_value(base[key], value, item, setting)
    return base


def _merge_list(base: list[Any], patch: list[Any], shape: Shape, setting: Setting) -> list[Any]:
    result = base
    for item in patch:
        if _is_deletion(item):
            wanted = {key: value for key, value in item.items() if key != PATCH_KEY}
            result = [old for old in result if not _contains(old, wanted)]
            continue
        match = _find_by_key(result, item, setting.merge_key) if setting.merge is Merge.BY_KEY else None
        if match is None:
            result = [*result, _without_instructions(item)]
        else:
            assert shape.item is not None
            merge_section(shape.item.type, match, item)
    return result


def _contains(item: Any, wanted: Plain) -> bool:
    return isinstance(item, dict) and wanted.items() <= cast("Plain", item).items()


def _find_by_key(items: list[Any], wanted: Any, keys: str) -> Plain | None:
    for key in keys.split("|"):
        if wanted.get(key) is not None:
            return next((item for item in items if item.get(key) == wanted[key]), None)
    return None


def _is_deletion(value: Any) -> bool:
    return isinstance(value, dict) and cast("Plain", value).get(PATCH_KEY) == "delete"


def _without_instructions(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("Plain", value).items()
        return {
            key: _without_instructions(item)
            for key, item in items
            if key != PATCH_KEY and not _is_deletion(item)
        }
    if isinstance(value, list):
        return [_without_instructions(item) for item in cast("list[Any]", value) if not _is_deletion(item)]
    return value


def _check(node: Node, source: str) -> list[Problem]:
    reader = SectionReader(document="", source=source, partial=True)
    read_document(node, reader)
    return reader.problems


def _id(document: Plain) -> tuple[str, str]:
    kind = document.get("kind", "")
    named = kind in MODULES and document_type(kind).named
    return kind, str(document.get("name", "")) if named else ""


def _type_of(document: Plain) -> type[Section]:
    return document_type(document.get("kind", ""))


def _apply_json(documents: list[Plain], patch: JsonPatch) -> list[Plain]:
    if len(documents) != 1:
        hint = "write it as a strategic merge patch"
        message = f"a JSON patch fits a config of one document, this one has {len(documents)}"
        raise ConfigError([Problem(message=message, source=patch.source, hint=hint)])
    return [apply_operations(documents[0], patch.operations, source=patch.source)]
