"""Kubernetes objects as plain values, and as the State holds them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct


def to_struct(value: Mapping[str, Any]) -> Struct:
    """An object for the State."""
    struct = Struct()
    json_format.ParseDict(dict(value), struct)
    return struct


def to_plain(struct: Struct) -> dict[str, Any]:
    """An object from the State. Its numbers are floats; Kubernetes requires whole ones as integers."""
    return cast("dict[str, Any]", _whole(json_format.MessageToDict(struct)))


def is_ready(status: Mapping[str, Any]) -> bool:
    """Whether the condition Ready of a node's or a pod's status is true."""
    conditions = status.get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def format_now() -> str:
    """This moment as objects have it: RFC 3339, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _whole(value: Any) -> Any:
    match value:
        case dict():
            return {key: _whole(each) for key, each in cast("dict[str, Any]", value).items()}
        case list():
            return [_whole(each) for each in cast("list[Any]", value)]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of ``base`` with changes; maps are merged, all else is replaced."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(cast("Mapping[str, Any]", old), cast("Mapping[str, Any]", value))
        else:
            merged[key] = value
    return merged
