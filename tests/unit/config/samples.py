"""A value for every field, made from its declaration."""

import base64
from typing import Any

from talos.config.documents.registry import MODULES, document_type
from talos.config.schema import Document, Field, Form, Section, Setting, Shape, fields_of
from talos.config.values import (
    Address,
    AddressPort,
    ByteSize,
    Duration,
    FileMode,
    HardwareAddress,
    PortRange,
    Prefix,
    RoundSize,
    RoutingTable,
    Scalar,
    Size,
    Url,
)

TEXTS: dict[type, str] = {
    Address: "10.0.0.1",
    AddressPort: "[fd00::1]:51820",
    ByteSize: "10GiB",
    RoundSize: "10 GB",
    Duration: "1h30m0s",
    HardwareAddress: "00:1a:2b:3c:4d:5e",
    PortRange: "1024-2048",
    Prefix: "10.0.0.0/8",
    RoutingTable: "254",
    Scalar: "7",
    Size: "50%",
}

ALL_KINDS = ("", *MODULES)


def make_plain(kind: str) -> dict[str, Any]:
    """A document of a kind with every field set, as plain data."""
    document = document_type(kind)
    header = {"apiVersion": "v1alpha1", "kind": kind} if kind else {}
    return {**header, **_section(document)}


def secret_fields(section: type[Section], path: str = "") -> list[str]:
    """Paths of all secret settings."""
    found: list[str] = []
    for key, field in fields_of(section).items():
        below = f"{path}.{key}" if path else key
        if field.setting.secret:
            found.append(below)
        inner = section_of(field.shape)
        if inner is not None:
            found += secret_fields(inner, below)
    return found


def section_of(shape: Shape) -> type[Section] | None:
    """The section that a field's values are, in a list or map too."""
    while shape.item is not None:
        shape = shape.item
    return shape.type if shape.form is Form.SECTION else None


def all_fields(section: type[Section], path: str = "") -> dict[str, Field]:
    """Every field with its path, written as the reference tables do."""
    found: dict[str, Field] = {}
    for key, field in fields_of(section).items():
        below = f"{path}.{key}" if path else key
        found[below] = field
        inner = section_of(field.shape)
        if inner is not None:
            mark = {Form.LIST: "[]", Form.MAP: ".<key>"}.get(field.shape.form, "")
            found |= all_fields(inner, below + mark)
    return found


def _section(section: type[Section]) -> dict[str, Any]:
    return {key: _value(field.shape, field.setting) for key, field in fields_of(section).items()}


def _value(shape: Shape, setting: Setting) -> Any:
    match shape.form:
        case Form.SECTION:
            return _section(shape.type)
        case Form.LIST:
            assert shape.item is not None
            return [_value(shape.item, setting)]
        case Form.MAP:
            assert shape.item is not None
            return {"some key": _value(shape.item, setting)}
        case Form.FREE:
            return {"a": 1.5, "b": [1, "off", {"c": None}]}
        case Form.ARGS:
            return {"one": "1", "several": ["1", "two"]}
        case Form.SCALAR:
            return _scalar(shape.type, setting)


def _scalar(wanted: type[Any], setting: Setting) -> Any:
    if setting.allowed:
        return setting.allowed[0]
    if wanted is bool:
        return True
    if issubclass(wanted, FileMode):
        return FileMode(0o644)
    if issubclass(wanted, int):
        return setting.bounds[1] if setting.bounds else 42
    if wanted is bytes:
        return base64.b64encode(b"-----BEGIN SECRET-----").decode()
    if issubclass(wanted, Url):
        return f"{setting.schemes[0] if setting.schemes else 'https'}://example.com:1/x"
    return wanted(TEXTS.get(wanted, "hush, a value"))


def name_of(document: type[Document]) -> str:
    """For test ids."""
    return document.kind or "main"
