"""How each spec message becomes YAML: worked out once per message from the tables."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from talos.api.tables import read_table
from talos.resource.yaml.enums import ENUMS, enum_texts
from talos.resource.yaml.text import Value
from talos.resource.yaml.values import (
    MESSAGE_CONVERTERS,
    NULL_WHEN_ABSENT,
    bytes_to_text,
    hardware_address_to_text,
)

_NETWORK = "talos.resource.definitions.network."

FLAGS = {
    _NETWORK + "AddressSpecSpec.flags": ENUMS + "NethelpersAddressFlag",
    _NETWORK + "AddressStatusSpec.flags": ENUMS + "NethelpersAddressFlag",
    _NETWORK + "RouteNextHop.flags": ENUMS + "NethelpersRouteFlag",
    _NETWORK + "RouteSpecSpec.flags": ENUMS + "NethelpersRouteFlag",
    _NETWORK + "RouteStatusSpec.flags": ENUMS + "NethelpersRouteFlag",
}
"""Numbers that are bit sets, and the enum that names their bits."""

_LINK_FLAGS = {
    1 << bit: name
    for bit, name in enumerate(
        [
            "UP",
            "BROADCAST",
            "DEBUG",
            "LOOPBACK",
            "POINTTOPOINT",
            "NOTRAILERS",
            "RUNNING",
            "NOARP",
            "PROMISC",
            "ALLMULTI",
            "MASTER",
            "SLAVE",
            "MULTICAST",
            "PORTSEL",
            "AUTOMEDIA",
            "DYNAMIC",
            "LOWER_UP",
            "DORMANT",
            "ECHO",
        ]
    )
}
"""IFF_* of linux/if.h, by their bits."""

_NUMBERS = frozenset({
    "talos.resource.definitions.block.EncryptionKey.static_passphrase",
    "talos.resource.definitions.cluster.ConfigSpec.service_encryption_key",
    "talos.resource.definitions.secrets.EncryptionSaltSpec.disk_salt",
})  # fmt: skip
"""Bytes that are a list of numbers, as Go's encoder has those without a form of their own."""
HARDWARE_ADDRESSES = frozenset(
    {
        _NETWORK + "HardwareAddrSpec.hardware_addr",
        _NETWORK + "LinkSpecSpec.hardware_address",
        _NETWORK + "LinkStatusSpec.broadcast_addr",
        _NETWORK + "LinkStatusSpec.hardware_addr",
        _NETWORK + "LinkStatusSpec.permanent_addr",
    }
)
"""Bytes that are written in hexadecimal with colons."""

_META = "cosi.resource.meta."
_OMIT_EMPTY = frozenset({"omitempty"})
_KEYS_OF_META = {
    (_META + "ResourceDefinitionSpec", "resource_type"): ("type", frozenset[str]()),
    (_META + "ResourceDefinitionSpec", "sensitivity"): ("sensitivity", _OMIT_EMPTY),
    ("talos.resource.definitions.proto.Mount", "uid_mappings"): ("uidMappings", _OMIT_EMPTY),
    ("talos.resource.definitions.proto.Mount", "gid_mappings"): ("gidMappings", _OMIT_EMPTY),
}
"""Keys that the table lacks and that differ from the field's JSON name."""

type Convert = Callable[[Any], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPlan:
    """How one field is written. An empty key merges the field's own keys into the parent's."""

    name: str
    key: str
    omit_empty: bool
    is_optional: bool
    is_message: bool
    is_null_when_absent: bool
    convert: Convert


def message_to_value(message: Message) -> dict[str, Value]:
    """A message as a mapping, in the order of its fields."""
    result: dict[str, Value] = {}
    for plan in _plan(message.DESCRIPTOR):
        is_absent = plan.is_optional and not message.HasField(plan.name)
        if is_absent and (plan.omit_empty or plan.is_null_when_absent):
            if not plan.omit_empty:
                result[plan.key] = None
            continue
        value = getattr(message, plan.name)
        if plan.omit_empty and (value.ByteSize() == 0 if plan.is_message else not value):
            continue
        converted = plan.convert(value)
        if plan.key:
            result[plan.key] = converted
        elif isinstance(converted, Mapping):
            result.update(converted)
    return result


@functools.cache
def _plan(descriptor: Descriptor) -> tuple[FieldPlan, ...]:
    return tuple(_plan_field(field) for field in descriptor.fields)


def find_key(field: FieldDescriptor) -> tuple[str, frozenset[str]]:
    """A field's key and its options; an empty key merges the field's own keys into the parent's."""
    owner: Descriptor = field.containing_type  # pyright: ignore[reportAssignmentType] - a field has one
    return _keys().get((owner.full_name, field.name)) or (field.json_name, frozenset[str]())


def _plan_field(field: FieldDescriptor) -> FieldPlan:
    key, options = find_key(field)
    is_message = field.message_type is not None and not field.is_repeated
    return FieldPlan(
        name=field.name,
        key=key,
        omit_empty="omitempty" in options,
        is_optional=field.has_presence,
        is_message=is_message,
        is_null_when_absent=field.message_type is None or field.message_type.full_name in NULL_WHEN_ABSENT,
        convert=_converter(field),
    )


def _converter(field: FieldDescriptor) -> Convert:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return functools.partial(_mapping, _single_converter(entry.fields_by_name["value"]))
    convert = _single_converter(field)
    return functools.partial(_sequence, convert) if field.is_repeated else convert


def _mapping(convert: Convert, values: Mapping[str, Any]) -> Value:
    return {key: convert(values[key]) for key in sorted(values)}


def _sequence(convert: Convert, values: Sequence[Any]) -> Value:
    return [convert(value) for value in values]


def _single_converter(field: FieldDescriptor) -> Convert:
    if field.message_type is not None:
        return MESSAGE_CONVERTERS.get(field.message_type.full_name, message_to_value)
    if field.enum_type is not None:
        return _enum_converter(field.enum_type)
    if field.full_name == _NETWORK + "LinkStatusSpec.flags":
        return functools.partial(_flags_to_text, _LINK_FLAGS)
    if field.full_name in FLAGS:
        return functools.partial(_flags_to_text, enum_texts(FLAGS[field.full_name]))
    if field.full_name in _NUMBERS:
        return list[Value]
    if field.type == FieldDescriptor.TYPE_BYTES:
        return hardware_address_to_text if field.full_name in HARDWARE_ADDRESSES else bytes_to_text
    return _itself


def _itself(value: Value) -> Value:
    return value


def _enum_converter(enum: EnumDescriptor) -> Convert:
    texts = enum_texts(enum.full_name)

    def convert(number: int) -> Value:
        return texts.get(number, str(number))

    return convert


def _flags_to_text(texts: Mapping[int, str], flags: int) -> str:
    names = [text for bit, text in sorted(texts.items()) if bit and flags & bit]
    return ",".join(names)


@functools.cache
def _keys() -> Mapping[tuple[str, str], tuple[str, frozenset[str]]]:
    table: dict[tuple[str, str], tuple[str, frozenset[str]]] = dict(_KEYS_OF_META)
    for row in read_table("yaml_keys.tsv"):
        options = frozenset(option for option in row["yaml_options"].split(",") if option)
        table[row["message"], row["proto_field"]] = (row["yaml_key"], options)
    return table
