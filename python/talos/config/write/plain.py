"""Sections as plain data: dicts in the order of the declarations, lists, scalars.

to_plain(document) -> dict
redact(document) -> dict, secrets replaced by REDACTED
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, cast

from talos.config.schema import Document, Field, Section, fields_of

REDACTED = "******"


def to_plain(section: Section) -> dict[str, Any]:
    """The section without what is absent; a document with its header."""
    return _section(section, hide=False)


def redact(section: Section) -> dict[str, Any]:
    """The same with every secret hidden."""
    return _section(section, hide=True)


def _section(section: Section, *, hide: bool) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if isinstance(section, Document) and section.kind:
        result |= {"apiVersion": "v1alpha1", "kind": section.kind}
    for key, field in fields_of(type(section)).items():
        value = getattr(section, field.name)
        if value is not None:
            result[key] = _value(value, field, hide=hide)
    return result


def _value(value: Any, field: Field, *, hide: bool) -> Any:
    if hide and field.setting.secret:
        return REDACTED if value else value
    match value:
        case Section():
            return _section(value, hide=hide)
        case bytes():
            return base64.b64encode(value).decode()
        case tuple() | list():
            items = cast("Sequence[Any]", value)
            return [_value(item, field, hide=hide) for item in items]
        case Mapping():
            mapping = cast("Mapping[str, Any]", value)
            return {key: _value(item, field, hide=hide) for key, item in mapping.items()}
        case _:
            return value
