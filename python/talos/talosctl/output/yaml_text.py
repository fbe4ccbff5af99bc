"""YAML as Go reads and writes it."""

from typing import TYPE_CHECKING, cast

from talos.config.read.nodes import plain
from talos.config.read.tree import parse_documents

if TYPE_CHECKING:
    from talos.resource.yaml.text import Value


def parse_yaml(text: str, *, source: str = "") -> object:
    """The value of the first document, None when there is none."""
    documents = parse_documents(text, source=source)
    return plain(documents[0]) if documents else None


def dump_yaml(value: object) -> str:
    """A document with an indent of four, of what JSON can hold."""
    # Imported late: tables are read from YAML and write none.
    from talos.resource.yaml.text import to_yaml

    return to_yaml(cast("Value", value))
