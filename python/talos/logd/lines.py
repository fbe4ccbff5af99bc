"""A line of a log as a message of the format ``json_lines``, as upstream builds them."""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from talos.api.internal.feed_pb2 import KernelRecord

AUDIT_SERVICE = "kube-apiserver-audit"
LEVELS = ("debug", "info", "warn", "error", "dpanic", "panic", "fatal")
_WARN = LEVELS.index("warn")
_YEAR_3000 = 32503680000.0
"""Seconds since the epoch; a larger number counts milliseconds."""
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d{1,9})?\d*(?:[Zz]|([+-]\d\d:\d\d))", re.ASCII
)
_KERNEL_LEVELS: Mapping[str, str] = {
    "emerg": "error", "alert": "error", "crit": "error", "err": "error",
    "warning": "warn", "notice": "info", "info": "info", "debug": "debug",
}  # fmt: skip


def make_service_message(service: str, line: bytes, now: float, tags: Mapping[str, str]) -> bytes | None:
    """A service's line as a JSON object; None for an empty one. ``now`` is in seconds since the epoch."""
    text = line.decode(errors="replace").strip()
    if not text:
        return None
    message, fields = _split(text)
    moment, level = format_moment(now), "info"
    key = next((name for name in ("time", "ts") if name in fields), "")
    if key and (found := _parse_moment(fields[key])):
        moment = found
        del fields[key]
    if (name := _parse_level(fields.get("level"))) is not None:
        level = name
        del fields["level"]
    if isinstance(fields.get("msg"), str):
        message = " ".join(filter(None, (message, fields.pop("msg"))))
    if isinstance(fields.get("err"), str):
        message = ": ".join(filter(None, (message, fields.pop("err"))))
        level = max(level, LEVELS[_WARN], key=LEVELS.index)
    fields |= {"msg": message, "talos-time": moment, "talos-level": level, "talos-service": service}
    return dump(fields, tags)


def make_audit_message(line: bytes, now: float, tags: Mapping[str, str]) -> bytes | None:
    """A record of the API server's as a JSON object with its own time; None for an empty line."""
    text = line.decode(errors="replace").strip()
    if not text:
        return None
    message, fields = _split(text)
    fields |= {
        "msg": message or "audit",
        "talos-time": _parse_moment(fields.get("stageTimestamp")) or format_moment(now),
        "talos-level": "info",
        "talos-service": AUDIT_SERVICE,
    }
    return dump(fields, tags)


def make_note(text: str, now: float, fields: Mapping[str, str]) -> bytes:
    """A message of our own in a stream, such as what is missing there."""
    record = {"msg": text, "talos-time": format_moment(now), "talos-level": "warn"}
    return dump(record, fields)


def make_kernel_message(record: KernelRecord, booted: float) -> bytes:
    """A record of the kernel's log as a JSON object. ``booted`` is in seconds since the epoch."""
    fields = {
        "msg": record.text,
        "talos-time": format_moment(booted + record.microseconds / 1e6),
        "talos-level": _KERNEL_LEVELS.get(record.priority, "info"),
        "facility": record.facility,
        "seq": record.sequence,
        "clock": record.microseconds,
        "priority": record.priority,
    }
    return dump(fields, {})


def dump(fields: Mapping[str, Any], tags: Mapping[str, str]) -> bytes:
    """One object on one line; the user's tags replace fields of the same name."""
    text = json.dumps({**fields, **tags}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="replace")  # a half of a surrogate pair is no text


def format_moment(seconds: float) -> str:
    """A time in RFC 3339, as Go prints it: no zeros at its end."""
    moment = datetime.fromtimestamp(seconds, UTC)
    fraction = f".{moment.microsecond:06}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _split(text: str) -> tuple[str, dict[str, Any]]:
    """The text in front of a JSON object, and its members; without an object all is text."""
    start = text.find("{")
    if start < 0 or not text.endswith("}"):
        return text, {}
    try:
        found = json.loads(text[start:], parse_constant=_refuse, parse_float=_parse_float)
    except (ValueError, RecursionError):
        return text, {}
    # It begins with a brace, and so is an object.
    return text[:start].strip(), cast("dict[str, Any]", found)


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")  # it would be written as a word that is no JSON
    return value


def _parse_moment(value: object) -> str:
    """A time as text or as a number; empty when it is neither."""
    if isinstance(value, str):
        found = _MOMENT.fullmatch(value)
        if found is None:
            return ""
        day, clock, fraction, offset = found.groups()
        try:
            moment = datetime.fromisoformat(f"{day}T{clock}{offset or '+00:00'}").astimezone(UTC)
        except (ValueError, OverflowError):
            return ""
        return f"{moment:%Y-%m-%dT%H:%M:%S}{(fraction or '').rstrip('0').rstrip('.')}Z"
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return format_moment(value / 1000 if value > _YEAR_3000 else value)
        except (ValueError, OverflowError, OSError):
            return ""
    return ""


def _parse_level(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    name = value.lower()
    name = "warn" if name == "warning" else name
    return name if name in LEVELS else None
