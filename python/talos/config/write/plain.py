"""Sections as plain data: dicts in the order of the declarations, lists, scalars.

to_plain(document) -> dict
redact(document) -> dict, secrets replaced by REDACTED, to be shown
withhold(document, keep) -> dict, secrets replaced by values of the same type, to be loaded
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from talos.config.schema import Document, Field, Section, fields_of
from talos.config.values import PortRange
from talos.resource.yaml.text import natural_order

REDACTED = "******"

type Replace = Callable[[Section, str, Any], Any]
"""Returns the replacement of a section's secret, of the field of this name."""


def to_plain(section: Section) -> dict[str, Any]:
    """The section without what is absent; a document with its header."""
    return _section(section, None)


def redact(section: Section) -> dict[str, Any]:
    """The same with every secret hidden."""
    return _section(section, lambda _, __, value: REDACTED if value else value)


def withhold(section: Section, keep: tuple[str, ...] = ()) -> dict[str, Any]:
    """The same without secrets, but a config that loads.

    ``keep`` are prefixes of ``module.Section.field``: those secrets stay.
    """
    return _section(section, partial(_replace_secret, keep))


def _replace_secret(keep: tuple[str, ...], section: Section, name: str, value: Any) -> Any:
    if f"{type(section).__module__}.{type(section).__name__}.{name}".startswith(keep):
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value
    match value:
        case str():
            return REDACTED if value else value
        case bytes():
            return base64.b64encode(REDACTED.encode()).decode() if value else ""
        case Mapping():
            return {}
        case _:
            return []


def _section(section: Section, replace: Replace | None) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if isinstance(section, Document) and section.kind:
        result |= {"apiVersion": "v1alpha1", "kind": section.kind}
    for key, field in fields_of(type(section)).items():
        value = getattr(section, field.name)
        if value is None:
            continue
        if replace is not None and field.setting.secret:
            result[key] = replace(section, field.name, value)
        else:
            result[key] = _value(value, field, replace)
    return result


def _value(value: Any, field: Field, replace: Replace | None) -> Any:
    match value:
        case Section():
            return _section(value, replace)
        case PortRange() if value.isdecimal() and str(int(value)) == value:
            return int(value)
        case bytes():
            return base64.b64encode(value).decode()
        case tuple() | list():
            items = cast("Sequence[Any]", value)
            return [_value(item, field, replace) for item in items]
        case Mapping():
            mapping = cast("Mapping[str, Any]", value)
            return {key: _value(mapping[key], field, replace) for key in sorted(mapping, key=natural_order)}
        case _:
            return value
