"""A config from YAML text, strictly, with all of its mistakes at once.

load(text, source="controlplane.yaml") -> Config      raises ConfigError
dump(config) -> str
dump_document(document) -> str
"""

from collections.abc import Mapping, Sequence
from typing import Any

from talos.config.documents.registry import MODULES, document_type
from talos.config.model import Config
from talos.config.problem import ConfigError, Mark, Problem
from talos.config.read.nodes import MappingNode, Node, ScalarNode
from talos.config.read.reader import SectionReader, did_you_mean
from talos.config.read.tree import parse_documents, to_utf8
from talos.config.schema import Document
from talos.config.write.plain import to_plain
from talos.resource.yaml.text import NO_COMMENTS, Comments, to_yaml

API_VERSION = "v1alpha1"
_HEADER = frozenset({"apiVersion", "kind"})


def load(text: str | bytes, *, source: str = "") -> Config:
    """Read a config, which may be partial.

    ConfigError: with every problem found.
    """
    problems: list[Problem] = []
    documents: list[Document] = []
    marks: dict[str, Mapping[str, Mark]] = {}
    seen: dict[str, Mark] = {}
    for node in parse_documents(text, source=source):
        label, first = _label(node), node.mark
        reader = SectionReader(document=label or "", source=source, problems=problems)
        if label is not None and label in seen:
            message = "duplicate document" if label else "a second main document"
            reader.record(message, "", first, hint=f"the first begins in line {seen[label].line}")
            continue
        if label is not None:
            seen[label] = first
        document = read_document(node, reader)
        if document is not None:
            documents.append(document)
            marks[document.id] = {"": first, **reader.marks}
    if problems:
        raise ConfigError(sorted(problems, key=lambda problem: problem.mark or Mark(0, 0)))
    raw = text.encode() if isinstance(text, str) else to_utf8(text)
    return Config(tuple(documents), raw, source, marks)


def dump(config: Config, *, comments: Comments = NO_COMMENTS) -> str:
    """The config as YAML, keys in the order of the declarations."""
    return "---\n".join(dump_document(document, comments=comments) for document in config.documents)


def dump_document(document: Document, *, comments: Comments = NO_COMMENTS) -> str:
    """One document as YAML."""
    return to_yaml(to_plain(document), comments=comments)


def dump_plain(documents: Sequence[Mapping[str, Any]]) -> str:
    """Documents as plain data."""
    return "---\n".join(to_yaml(document) for document in documents)


def _label(node: Node) -> str | None:
    """Kind and name of a document, empty for the main one, None when it is none of these."""
    if not isinstance(node, MappingNode):
        return None
    kind = _text(node, "kind")
    if not kind:
        return None if "apiVersion" in node.entries else ""
    name = _text(node, "name")
    return f"{kind}/{name}" if name else kind


def _text(node: MappingNode, key: str) -> str:
    _, value = node.entries.get(key, (None, None))
    return value.value if isinstance(value, ScalarNode) else ""


def read_document(node: Node, reader: SectionReader) -> Document | None:
    """Read one document of any kind; mistakes are noted in the reader."""
    if not isinstance(node, MappingNode):
        reader.record("a document must be a mapping", "", node.mark)
        return None
    if not _HEADER & node.entries.keys():
        return reader.read(document_type(""), node)
    version, kind = _text(node, "apiVersion"), _text(node, "kind")
    if version != API_VERSION:
        mark = node.entries["apiVersion"][1].mark if "apiVersion" in node.entries else node.mark
        reader.record(
            f'"{version}" is not allowed' if version else "is missing",
            "apiVersion",
            mark,
            hint=f"only {API_VERSION}",
        )
    if kind not in MODULES:
        mark = node.entries["kind"][1].mark if "kind" in node.entries else node.mark
        reader.record(
            f'unknown kind "{kind}"' if kind else "is missing", "kind", mark, hint=did_you_mean(kind, MODULES)
        )
        return None
    return reader.read(document_type(kind), node, ignore=_HEADER)
