"""Texts for values whose protobuf form is bytes or a message."""

import base64
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct
from google.protobuf.struct_pb2 import Value as StructValue
from google.protobuf.timestamp_pb2 import Timestamp

from talos.api.common import common_pb2 as common
from talos.api.durations import format_nanoseconds
from talos.api.google.api.expr.v1alpha1.checked_pb2 import CheckedExpr
from talos.resource.yaml.cel import expression_to_text
from talos.resource.yaml.text import Value, natural_order

ZERO_TIME = "0001-01-01T00:00:00Z"
"""Go's zero time, which upstream writes for a time that was never set."""

_NANOS = 1_000_000_000


def ip_to_text(ip: bytes) -> str:
    """An address: 4 bytes, or 16 followed by the zone's name; empty for none."""
    match len(ip):
        case 0:
            return ""
        case 4:
            return socket.inet_ntop(socket.AF_INET, ip)
        case _:
            zone = ip[16:].decode()
            return socket.inet_ntop(socket.AF_INET6, ip[:16]) + (f"%{zone}" if zone else "")


def prefix_to_text(prefix: common.NetIPPrefix) -> str:
    """A network, or an address with its prefix length; empty for none."""
    return f"{ip_to_text(prefix.ip)}/{prefix.prefix_length}" if prefix.ip else ""


def ip_port_to_text(endpoint: common.NetIPPort) -> str:
    """An address and a port; IPv6 in brackets; empty for none."""
    if not endpoint.ip:
        return ""
    ip = ip_to_text(endpoint.ip)
    return f"[{ip}]:{endpoint.port}" if len(endpoint.ip) > 4 else f"{ip}:{endpoint.port}"


def hardware_address_to_text(address: bytes) -> str:
    """Six bytes or more as colon-separated hex."""
    return address.hex(":")


def duration_to_text(duration: Duration) -> str:
    """A duration as Go writes it: ``1h2m3.5s``, ``150ms``, ``0s``."""
    return format_nanoseconds(duration.seconds * _NANOS + duration.nanos)


def timestamp_to_text(time: Timestamp) -> str:
    """A time in UTC as RFC 3339 with as many digits as it needs."""
    if not time.seconds and not time.nanos:
        return ZERO_TIME
    text = datetime.fromtimestamp(time.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    fraction = f".{time.nanos:09}".rstrip("0") if time.nanos else ""
    return f"{text}{fraction}Z"


def struct_to_value(struct: Struct) -> dict[str, Value]:
    """A free-form mapping, ordered by key."""
    return {key: _struct_value(struct.fields[key]) for key in sorted(struct.fields, key=natural_order)}


def _struct_value(value: StructValue) -> Value:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            return value.number_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return struct_to_value(value.struct_value)
        case "list_value":
            items: ListValue = value.list_value
            return [_struct_value(item) for item in items.values]
        case _:
            return None


def bytes_to_text(value: bytes) -> str:
    """Bytes without a meaning of their own, in base 64."""
    return base64.b64encode(value).decode()


def _certificate_and_key(pair: common.PEMEncodedCertificateAndKey) -> dict[str, Value]:
    return {"crt": bytes_to_text(pair.crt), "key": bytes_to_text(pair.key)}


def _certificate(certificate: common.PEMEncodedCertificate) -> dict[str, Value]:
    return {"crt": bytes_to_text(certificate.crt)}


def _key(key: common.PEMEncodedKey) -> dict[str, Value]:
    return {"key": bytes_to_text(key.key)}


def _net_ip(ip: common.NetIP) -> str:
    return ip_to_text(ip.ip)


def _url(url: common.URL) -> str:
    return url.full_path


type Converter = Callable[[Message], Value]


def _by_type[M: Message](type: type[M], convert: Callable[[M], Value]) -> tuple[str, Converter]:
    return type.DESCRIPTOR.full_name, cast("Converter", convert)


MESSAGE_CONVERTERS = dict(
    (
        _by_type(common.NetIP, _net_ip),
        _by_type(common.NetIPPrefix, prefix_to_text),
        _by_type(common.NetIPPort, ip_port_to_text),
        _by_type(common.URL, _url),
        _by_type(common.PEMEncodedCertificateAndKey, _certificate_and_key),
        _by_type(common.PEMEncodedCertificate, _certificate),
        _by_type(common.PEMEncodedKey, _key),
        _by_type(Duration, duration_to_text),
        _by_type(Timestamp, timestamp_to_text),
        _by_type(Struct, struct_to_value),
        _by_type(CheckedExpr, expression_to_text),
    )
)
"""How a message that is one value in YAML is written, by its full name."""

NULL_WHEN_ABSENT = frozenset(
    message.DESCRIPTOR.full_name
    for message in (
        common.PEMEncodedCertificateAndKey,
        common.PEMEncodedCertificate,
        common.PEMEncodedKey,
        common.URL,
        CheckedExpr,
    )
)
"""Messages that upstream holds as pointers: absent means null, not a zero value."""
