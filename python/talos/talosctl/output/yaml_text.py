"""YAML as Go reads and writes it."""

from typing import cast

from talos.config.read.tree import parse_documents, plain
from talos.resource.yaml.text import Value, to_yaml


def parse_yaml(text: str, *, source: str = "") -> object:
    """The value of the first document, None when there is none."""
    documents = parse_documents(text, source=source)
    return plain(documents[0]) if documents else None


def dump_yaml(value: object) -> str:
    """A document with an indent of four, of what JSON can hold."""
    return to_yaml(cast("Value", value))
