"""Config patches: strategic merge and JSON patch.

    patches = [parse_patch(text, source="patch.yaml"), ...]      raises ConfigError
    text = apply_patches(config_text, patches, source="controlplane.yaml")

A patch is a config with a part of the documents and keys. Mappings merge; lists are
appended, replaced, or merged by a key, by their declaration; ``$patch: delete`` removes
the document, section, key or list item that contains it. A list at the top is a JSON patch (RFC 6902),
which only fits a config of one document.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from talos.config.change.declared import declared_plain
from talos.config.change.deletion import Deletion, Plain, delete, split_deletions
from talos.config.change.json_patch import Operation, apply_operations, parse_operations
from talos.config.change.merge import (
    document_id,
    find_document,
    merge_documents,
    without_empty,
)
from talos.config.documents.registry import document_type
from talos.config.problem import ConfigError, Problem
from talos.config.read.loader import dump_plain, load, read_document
from talos.config.read.nodes import MappingNode, Node, SequenceNode, plain
from talos.config.read.reader import SectionReader
from talos.config.read.tree import parse_documents
from talos.config.write.plain import to_plain

_HEADER = ("version", "apiVersion", "kind", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPatch:
    """What to change in one document: first what to delete, then what to merge."""

    header: Plain
    deletions: tuple[Deletion, ...] = ()
    content: Plain | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategicPatch:
    """Parts of documents to merge."""

    documents: tuple[DocumentPatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPatch:
    """Operations on one document."""

    operations: tuple[Operation, ...]
    source: str = ""


type Patch = StrategicPatch | JsonPatch


def parse_patch(text: str | bytes, *, source: str = "patch") -> Patch:
    """Read a patch of either kind, strictly.

    ConfigError: with every unknown key and every value of the wrong type.
    """
    nodes = parse_documents(text, source=source)
    if len(nodes) == 1 and isinstance(nodes[0], SequenceNode):
        return JsonPatch(operations=parse_operations(plain(nodes[0]), source=source), source=source)
    problems: list[Problem] = []
    documents: list[DocumentPatch] = []
    for node in nodes:
        if isinstance(node, MappingNode) and not node.entries:
            continue  # scripts pass patches in which nothing is left
        try:
            documents.append(_parse_document(node, source))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return StrategicPatch(documents=tuple(documents))


def apply_patches(text: str | bytes, patches: Sequence[Patch], *, source: str = "") -> str:
    """The config's text after all patches, checked again.

    ConfigError: when the config or the outcome is wrong.
    """
    config = load(text, source=source)
    if not any(isinstance(patch, JsonPatch) or patch.documents for patch in patches):
        return config.text.decode()
    documents = [to_plain(document) for document in config.documents]
    for patch in patches:
        if isinstance(patch, JsonPatch):
            documents = _apply_json(documents, patch)
        else:
            for part in patch.documents:
                documents = _apply_document(documents, part)
    patched = load(dump_plain(documents), source="the patched config")
    return dump_plain([without_empty(type(document), to_plain(document)) for document in patched.documents])


def _parse_document(node: Node, source: str) -> DocumentPatch:
    if not isinstance(node, MappingNode):
        raise ConfigError([Problem(message="a document must be a mapping", mark=node.mark, source=source)])
    rest, deletions = split_deletions(node, source)
    header = MappingNode(node.mark, {key: node.entries[key] for key in _HEADER if key in node.entries})
    reader = SectionReader(document="", source=source, partial=True)
    read_document(rest or header, reader)
    if reader.problems:
        raise ConfigError(reader.problems)
    if any(not deletion.path for deletion in deletions) and "kind" not in node.entries:
        hint = "name a document by its apiVersion and kind"
        message = "the main document can't be deleted"
        raise ConfigError([Problem(message=message, mark=node.mark, source=source, hint=hint)])
    only_header = rest is None or rest.entries.keys() <= header.entries.keys()
    section = document_type(plain(header).get("kind", ""))
    content = None if deletions and only_header else declared_plain(section, rest or header)
    return DocumentPatch(header=declared_plain(section, header), deletions=tuple(deletions), content=content)


def _apply_document(documents: list[Plain], patch: DocumentPatch) -> list[Plain]:
    wanted = document_id(patch.header)
    for deletion in patch.deletions:
        at = find_document(documents, wanted)
        if at is None:
            continue
        if deletion.path:
            changed = copy.deepcopy(documents[at])
            delete(document_type(wanted[0]), changed, deletion, label=" ".join(filter(None, wanted)))
            documents = [*documents[:at], changed, *documents[at + 1 :]]
        else:
            documents = [*documents[:at], *documents[at + 1 :]]
    return documents if patch.content is None else merge_documents(documents, [patch.content])


def _apply_json(documents: list[Plain], patch: JsonPatch) -> list[Plain]:
    if len(documents) != 1:
        hint = "write it as a strategic merge patch"
        message = f"a JSON patch fits a config of one document, this one has {len(documents)}"
        raise ConfigError([Problem(message=message, source=patch.source, hint=hint)])
    return [apply_operations(documents[0], patch.operations, source=patch.source)]
