"""A part of a document as plain data, by its declaration.

What a setting takes as a text stays as it is written: ``1.10`` of a label is no number, and ``0644`` of an
argument is not 420.
"""

from typing import Any

from talos.config.read.nodes import MappingNode, Node, ScalarNode, SequenceNode, is_null, plain
from talos.config.schema import Form, Section, Shape, fields_of

_TEXT = Shape(Form.SCALAR, str)


def declared_plain(section: type[Section], node: MappingNode) -> dict[str, Any]:
    """The keys that the section does not declare, such as a document's header, as :func:`plain` has them."""
    shapes = {key: field.shape for key, field in fields_of(section).items()}
    return {
        key: _value(value, shapes[key]) if key in shapes else plain(value)
        for key, (_, value) in node.entries.items()
    }


def _value(node: Node, shape: Shape) -> Any:
    match node:
        case ScalarNode() if shape.form is Form.SCALAR and issubclass(shape.type, str):
            return None if is_null(node) else node.value
        case MappingNode() if shape.form is Form.SECTION:
            return declared_plain(shape.type, node)
        case MappingNode() if shape.form in {Form.MAP, Form.ARGS}:
            item = shape.item or _TEXT
            return {key: _value(value, item) for key, (_, value) in node.entries.items()}
        case SequenceNode() if shape.form in {Form.LIST, Form.SCALAR}:
            return [_value(item, shape.item or _TEXT) for item in node.items]
        case _:
            return plain(node)
