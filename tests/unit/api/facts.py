"""The API as flat facts, from upstream's tables and from our generated descriptors.

A fact is a tuple of plain values, so that two sets of them can be compared and their
difference read.
"""

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

from talos.api.common import common_pb2

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / "python"
TABLES = ROOT / "tests" / "data" / "wire"

type Fact = tuple[object, ...]
type Table = dict[str, Any]

FOREIGN = (
    "containerd.",
    "io.containerd.",
    "etcdserverpb",
    "mvccpb",
    "runtime.v1",
    "talos.internal",
    "talos.login",
    "talos.metrics",
    "talos.probe",
)
"""Packages that are not upstream's API: containerd's, Kubernetes', etcd's, and our own."""

_SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}


def load_tables() -> list[Table]:
    """Every YAML table."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    paths = sorted(TABLES.rglob("*.yaml"))
    return [cast("Table", yaml.load(path.read_text(encoding="utf-8"), Loader=loader)) for path in paths]


def load_descriptors() -> list[FileDescriptor]:
    """The descriptor of every .proto file."""
    found: list[FileDescriptor] = []
    for path in sorted(PYTHON.rglob("*.proto")):
        name = ".".join(path.relative_to(PYTHON).with_suffix("").parts)
        found.append(importlib.import_module(f"{name}_pb2").DESCRIPTOR)
    return found


def facts_of_table(table: Table) -> Iterator[Fact]:
    """The rows of a table."""
    for name, service in cast("Table", table.get("services", {})).items():
        yield ("service", name, *_flags(service.get("flags", {})))
        for method in service["methods"]:
            yield (
                "method", f"{name}.{method['name']}", method["req"], method["res"],
                "stream" if method["cs"] else "one", "stream" if method["ss"] else "one", *_flags(method),
            )  # fmt: skip
    for name, message in cast("Table", table.get("messages", {})).items():
        numbers = ",".join(str(number) for number in message.get("reserved", []))
        names = ",".join(message.get("reserved_names", []))
        yield ("message", name, *_flags(message.get("flags", {})), numbers, names)
        for field in cast("list[Table]", message["fields"] or []):
            yield (
                "field", f"{name}.{field['name']}", field["n"], field["t"].replace(" ", ""),
                field.get("label", ""), field.get("oneof", ""), *_flags(field),
            )  # fmt: skip
    for name, enum in cast("Table", table.get("enums", {})).items():
        flags = enum.get("flags", {})
        yield ("enum", name, *_flags(flags), bool(flags.get("allow_alias")))
        for value in enum["values"]:
            yield ("value", name, value["n"], value["name"], *_flags(value))
    for extension in table.get("extensions", []):
        yield ("extension", extension["extends"], extension["n"], extension["name"], extension["t"])


def _flags(row: Table) -> Sequence[object]:
    return (bool(row.get("deprecated")), str(row.get("removed_in", "")))


def facts_of_file(file: FileDescriptor) -> Iterator[Fact]:
    """The facts of a generated descriptor."""
    for service in file.services_by_name.values():
        yield from _facts_of_service(service)
    for message in file.message_types_by_name.values():
        yield from _facts_of_message(message)
    for enum in file.enum_types_by_name.values():
        yield from _facts_of_enum(enum)
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    for field in proto.extension:
        yield ("extension", field.extendee.removeprefix("."), field.number, field.name, _type(field))


def _facts_of_service(service: ServiceDescriptor) -> Iterator[Fact]:
    removal = common_pb2.remove_deprecated_service
    yield ("service", service.full_name, *_options(service.GetOptions(), removal))
    for method in service.methods:
        yield (
            "method", method.full_name, method.input_type.full_name, method.output_type.full_name,
            "stream" if method.client_streaming else "one", "stream" if method.server_streaming else "one",
            *_options(method.GetOptions(), common_pb2.remove_deprecated_method),
        )  # fmt: skip


def _facts_of_message(message: Descriptor) -> Iterator[Fact]:
    if message.GetOptions().map_entry:
        return
    proto = FileDescriptorProto().message_type.add()
    message.CopyToProto(proto)
    numbers = ",".join(str(number) for span in proto.reserved_range for number in range(span.start, span.end))
    flags = _options(message.GetOptions(), common_pb2.remove_deprecated_message)
    yield ("message", message.full_name, *flags, numbers, ",".join(proto.reserved_name))
    for field, row in zip(message.fields, proto.field, strict=True):
        entry = field.message_type
        kind, label = _type(row), "repeated" if field.is_repeated else ""
        if entry is not None and entry.GetOptions().map_entry:
            rows = FileDescriptorProto().message_type.add()
            entry.CopyToProto(rows)
            kind, label = f"map<{_type(rows.field[0])},{_type(rows.field[1])}>", "map"
        oneof = ""
        if row.proto3_optional:
            label = "optional"
        elif field.containing_oneof is not None:
            oneof = field.containing_oneof.name
        flags = _options(field.GetOptions(), common_pb2.remove_deprecated_field)
        yield ("field", field.full_name, field.number, kind, label, oneof, *flags)
    for nested in message.nested_types:
        yield from _facts_of_message(nested)
    for enum in message.enum_types:
        yield from _facts_of_enum(enum)


def _facts_of_enum(enum: EnumDescriptor) -> Iterator[Fact]:
    flags = _options(enum.GetOptions(), common_pb2.remove_deprecated_enum)
    yield ("enum", enum.full_name, *flags, enum.GetOptions().allow_alias)
    for value in enum.values:
        flags = _options(value.GetOptions(), common_pb2.remove_deprecated_enum_value)
        yield ("value", enum.full_name, value.number, value.name, *flags)


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name.removeprefix(".") or _SCALARS[field.type]


def _options(options: Message, removal: Any) -> Sequence[object]:
    return (bool(getattr(options, "deprecated", False)), str(cast("Any", options).Extensions[removal]))
