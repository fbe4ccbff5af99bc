"""Parts of a document of JSON, each of the type that it must have.

Numbers of 64 bits are texts in the JSON of protobuf, and bytes are in base64.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from talos.system.errors import UserError
from talos.system.parsed import as_object

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_LATEST = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())


def text_of(part: Mapping[str, Any], key: str, where: str) -> str:
    """A text that is not empty; UserError."""
    value: object = part.get(key)
    if isinstance(value, str) and value:
        return value
    raise UserError(f"it has no text {key!r}", where=where)


def bytes_of(part: Mapping[str, Any], key: str, where: str) -> bytes:
    """Bytes, of which there is one at least; UserError."""
    return decode(part.get(key), key, where)


def decode(value: object, name: str, where: str) -> bytes:
    """Bytes in base64, of which there is one at least; UserError."""
    try:
        data = base64.b64decode(cast("str", value), validate=True)
    except (TypeError, ValueError, binascii.Error):
        data = b""
    if not data:
        raise UserError(f"{name} is not in base64", where=where)
    return data


def number_of(part: Mapping[str, Any], key: str, where: str) -> int:
    """A number that is not negative; one that is left out is 0. UserError."""
    value: object = part.get(key, 0)
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if isinstance(text, str) and _NUMBER.fullmatch(text):
        return int(text)
    raise UserError(f"{key} is no number", where=where)


def time_of(seconds: int, where: str) -> datetime:
    """A time in seconds since 1970; UserError."""
    if not 0 < seconds < _LATEST:
        raise UserError(f"{seconds} is no time", where=where)
    return datetime.fromtimestamp(seconds, UTC)


def objects_of(part: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects in a list, or none."""
    value: object = part.get(key)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def object_of(part: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The object at a path of keys; an empty one when there is none."""
    found = as_object(part)
    for key in keys:
        found = as_object(found.get(key))
    return found
