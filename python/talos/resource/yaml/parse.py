"""Messages from values of YAML: the way back of :mod:`talos.resource.yaml.plan`, for what people write."""

import base64
import functools
from collections.abc import Callable, Mapping
from ipaddress import ip_address, ip_interface
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from talos.api.addresses import make_ip, make_prefix, parse_ip_port
from talos.api.common import common_pb2 as common
from talos.api.durations import parse_duration
from talos.api.timestamps import make_duration
from talos.resource.yaml.enums import enum_texts
from talos.resource.yaml.plan import FLAGS, HARDWARE_ADDRESSES, find_key
from talos.system.errors import UserError


def value_to_message(message: Message, value: object, where: str = "") -> None:
    """Fill a message from a mapping; keys that it has no field for are left out. UserError with the place."""
    if not isinstance(value, dict):
        raise UserError("is no mapping", where=where)
    given = cast("Mapping[object, object]", value)
    for field in cast("Descriptor", message.DESCRIPTOR).fields:
        key = find_key(field)[0]
        if not key:
            value_to_message(getattr(message, field.name), given, where)
        elif given.get(key) is not None:
            _fill(message, field, given[key], f"{where}.{key}" if where else key)


def _fill(message: Message, field: FieldDescriptor, value: object, where: str) -> None:
    if not field.is_repeated:
        _fill_one(message, field, value, where)
        return
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _fill_map(message, field, value, where)
        return
    if not isinstance(value, list):
        raise UserError("is no list", where=where)
    items = getattr(message, field.name)
    for index, item in enumerate(cast("list[object]", value)):
        place = f"{where}[{index}]"
        if field.message_type is not None:
            _fill_message(items.add(), item, place)
        else:
            _set(items.append, field, item, place)


def _fill_map(message: Message, field: FieldDescriptor, value: object, where: str) -> None:
    """A mapping from texts to texts, such as tags."""
    if not isinstance(value, dict):
        raise UserError("is no mapping", where=where)
    items = getattr(message, field.name)
    for key, item in cast("dict[object, object]", value).items():
        items[_text(key, where)] = _text(item, f"{where}.{key}")


def _fill_one(message: Message, field: FieldDescriptor, value: object, where: str) -> None:
    if field.message_type is not None:
        part = getattr(message, field.name)
        part.SetInParent()
        _fill_message(part, value, where)
        return
    _set(functools.partial(setattr, message, field.name), field, value, where)


def _set(assign: Callable[[Any], None], field: FieldDescriptor, value: object, where: str) -> None:
    try:
        assign(_parse_scalar(field, value, where))
    except (TypeError, ValueError):  # out of the field's range
        raise UserError(f"{_show(value)} is not possible here", where=where) from None


def _fill_message(message: Message, value: object, where: str) -> None:
    parse = _TEXTS.get(message.DESCRIPTOR.full_name)
    if parse is None:
        value_to_message(message, value, where)
    elif value != "":
        try:
            message.CopyFrom(parse(_text(value, where)))
        except ValueError as error:
            raise UserError(str(error), where=where) from None


def _parse_scalar(field: FieldDescriptor, value: object, where: str) -> Any:
    if field.full_name in FLAGS:
        return _parse_flags(FLAGS[field.full_name], value, where)
    if field.enum_type is not None:
        return _parse_number(field.enum_type.full_name, value, where)
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return _text(value, where)
        case FieldDescriptor.TYPE_BOOL if isinstance(value, bool):
            return value
        case FieldDescriptor.TYPE_BYTES:
            return _parse_bytes(_text(value, where), where, is_address=field.full_name in HARDWARE_ADDRESSES)
        case _ if isinstance(value, int) and not isinstance(value, bool):
            return value
        case _:
            raise UserError(f"{_show(value)} is not possible here", where=where)


def _parse_flags(enum: str, value: object, where: str) -> int:
    if isinstance(value, int):
        return value
    names = [name.strip() for name in _text(value, where).split(",")]
    return functools.reduce(int.__or__, (_parse_number(enum, name, where) for name in names if name), 0)


def _parse_number(enum: str, value: object, where: str) -> int:
    """A number of an enum by its text, or as it is where it has none, such as a routing table's."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = _text(value, where)
    numbers = {name: number for number, name in enum_texts(enum).items()}
    if text in numbers:
        return numbers[text]
    if text.isascii() and text.isdecimal() and len(text) < len(str(1 << 31)):
        return int(text)
    known = ", ".join(name for name in numbers if name)
    raise UserError(f"there is no {text[:80]!r}", where=where, hint=f"use one of: {known}")


def _parse_bytes(text: str, where: str, *, is_address: bool) -> bytes:
    try:
        return bytes.fromhex(text.replace(":", "")) if is_address else base64.b64decode(text, validate=True)
    except ValueError:
        kind = "hardware address" if is_address else "base64"
        raise UserError(f"{text[:80]!r} is no {kind}", where=where) from None


def _text(value: object, where: str) -> str:
    if isinstance(value, str):
        return value
    raise UserError(f"{_show(value)} is no text", where=where)


def _show(value: object) -> str:
    return repr(value)[:80]


def _parse_ip(text: str) -> common.NetIP:
    return make_ip(ip_address(text))


def _parse_prefix(text: str) -> common.NetIPPrefix:
    if "/" not in text:
        raise ValueError(f"{text[:80]!r} has no prefix length, such as /24")
    return make_prefix(ip_interface(text))


def _parse_duration(text: str) -> Duration:
    return make_duration(parse_duration(text))


_TEXTS: Mapping[str, Callable[[str], Message]] = {
    common.NetIP.DESCRIPTOR.full_name: _parse_ip,
    common.NetIPPrefix.DESCRIPTOR.full_name: _parse_prefix,
    common.NetIPPort.DESCRIPTOR.full_name: parse_ip_port,
    Duration.DESCRIPTOR.full_name: _parse_duration,
}
"""Messages that are one text, by their full names. ValueError."""
