"""Sections as plain data: dicts in the order of the declarations, lists, scalars.

to_plain(document) -> dict
redact(document) -> dict, secrets replaced by REDACTED, to be shown
withhold(document, keep) -> dict, what is secret or private replaced by values of the same type, to be loaded
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from talos.config.schema import Document, Field, Section, fields_of
from talos.config.values import PortRange, Url
from talos.resource.yaml.text import natural_order

REDACTED = "******"

type Replace = Callable[[Section, Field, Any], Any]
"""What a section's field is shown as, by its value; ``_SHOWN`` for a value that may be seen."""

_SHOWN = object()


def to_plain(section: Section) -> dict[str, Any]:
    """The section without what is absent; a document with its header."""
    return _section(section, None)


def redact(section: Section) -> dict[str, Any]:
    """The same with every secret hidden."""
    return _section(section, _redact)


def withhold(section: Section, keep: tuple[str, ...] = ()) -> dict[str, Any]:
    """The same without what is secret or private, but a config that loads.

    ``keep`` are prefixes of ``module.Section.field``: those values stay.
    """
    return _section(section, partial(_withhold, keep))


def _redact(_section: Section, field: Field, value: Any) -> Any:
    return REDACTED if field.setting.secret and value else _SHOWN


def _withhold(keep: tuple[str, ...], section: Section, field: Field, value: Any) -> Any:
    if not (field.setting.secret or field.setting.private):
        return _SHOWN
    if f"{type(section).__module__}.{type(section).__name__}.{field.name}".startswith(keep):
        return _SHOWN
    match value:
        case Url():
            return f"{value.scheme}://withheld" if value else value
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
        shown = _SHOWN if replace is None else replace(section, field, value)
        result[key] = _value(value, field, replace) if shown is _SHOWN else shown
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
