"""The records of an answer as text, RFC 1035 section 5.1: what is read from strangers, for people.

Pointers of names lead backward only, so that no name can lead in a circle.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from talos.dnsd.message import HEADER, OPT, RECORD, MalformedError, format_name

MAX_RECORDS = 500
"""Their texts take at most two megabytes, however names are compressed."""
TYPES = {
    "A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "HINFO": 13, "MX": 15, "TXT": 16, "AAAA": 28,
    "LOC": 29, "SRV": 33, "NAPTR": 35, "CERT": 37, "DNAME": 39, "DS": 43, "SSHFP": 44, "RRSIG": 46,
    "NSEC": 47, "DNSKEY": 48, "NSEC3": 50, "TLSA": 52, "CDS": 59, "CDNSKEY": 60, "SVCB": 64, "HTTPS": 65,
    "SPF": 99, "URI": 256, "CAA": 257,
}  # fmt: skip
"""IANA's registry of DNS parameters."""
_NAMES = {number: name for name, number in TYPES.items()}
_CODES = (
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
    "NOTAUTH", "NOTZONE", "DSOTYPENI",
)  # fmt: skip
_OTHER_CODES = {16: "BADVERS", 23: "BADCOOKIE"}
_POINTER, _MAX_LABEL, _MAX_NAME = 0xC0, 63, 255
_TYPE_CLASS_SIZE = 4
_QUOTE, _BACKSLASH = 0x22, 0x5C


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record; ``section`` is 0 for the answer, 1 for the authorities, 2 for what is additional."""

    section: int
    name: str
    type: str
    seconds: int
    data: str


def read_records(message: bytes) -> list[Record]:
    """Those of a message with one question, without EDNS; MalformedError."""
    _, _, _, *counts = _unpack(HEADER, message, 0)
    if sum(counts) > MAX_RECORDS:
        raise MalformedError(f"more than {MAX_RECORDS} records")
    _, position = _read_name(message, HEADER.size)
    position += _TYPE_CLASS_SIZE
    records: list[Record] = []
    for section, count in enumerate(counts):
        for _ in range(count):
            name, position = _read_name(message, position)
            kind, _, seconds, size = _unpack(RECORD, message, position)
            position += RECORD.size
            end = position + size
            if end > len(message):
                raise MalformedError("cut off")
            if kind != OPT:
                data = _format_data(message, kind, position, end)
                records.append(
                    Record(section=section, name=name, type=format_type(kind), seconds=seconds, data=data)
                )
            position = end
    return records


def format_type(kind: int) -> str:
    """``AAAA``; ``TYPE65280`` for one without a name, RFC 3597."""
    return _NAMES.get(kind, f"TYPE{kind}")


def format_code(code: int) -> str:
    """``NXDOMAIN``; ``RCODE15`` for one without a name."""
    if code < len(_CODES):
        return _CODES[code]
    return _OTHER_CODES.get(code, f"RCODE{code}")


def _format_data(message: bytes, kind: int, begin: int, end: int) -> str:
    read = _READERS.get(kind)
    if read is None:
        return f"\\# {end - begin} {message[begin:end].hex()}".rstrip()
    text, position = read(message, begin, end)
    if position != end:
        raise MalformedError(f"a record {format_type(kind)} of another length")
    return text


def _read_address(message: bytes, begin: int, _end: int) -> tuple[str, int]:
    return str(IPv4Address(_take(message, begin, 4))), begin + 4


def _read_address6(message: bytes, begin: int, _end: int) -> tuple[str, int]:
    return str(IPv6Address(_take(message, begin, 16))), begin + 16


def _read_target(message: bytes, begin: int, _end: int) -> tuple[str, int]:
    return _read_name(message, begin)


def _read_mail_server(message: bytes, begin: int, _end: int) -> tuple[str, int]:
    [preference] = _unpack(struct.Struct("!H"), message, begin)
    name, position = _read_name(message, begin + 2)
    return f"{preference} {name}", position


def _read_server(message: bytes, begin: int, _end: int) -> tuple[str, int]:
    priority, weight, port = _unpack(struct.Struct("!HHH"), message, begin)
    name, position = _read_name(message, begin + 6)
    return f"{priority} {weight} {port} {name}", position


def _read_authority(message: bytes, begin: int, _end: int) -> tuple[str, int]:
    primary, position = _read_name(message, begin)
    mailbox, position = _read_name(message, position)
    numbers = struct.Struct("!5I")
    values = _unpack(numbers, message, position)
    return f"{primary} {mailbox} {' '.join(map(str, values))}", position + numbers.size


def _read_texts(message: bytes, begin: int, end: int) -> tuple[str, int]:
    texts: list[str] = []
    while begin < end:
        size = message[begin]
        texts.append(_quote(_take(message, begin + 1, size)))
        begin += 1 + size
    return " ".join(texts), begin


def _read_authorization(message: bytes, begin: int, end: int) -> tuple[str, int]:
    flags, size = _unpack(struct.Struct("!BB"), message, begin)
    tag = _take(message, begin + 2, size)
    if not tag.isalnum() or begin + 2 + size > end:
        raise MalformedError("a record CAA without a tag")
    return f"{flags} {tag.decode('ascii')} {_quote(message[begin + 2 + size : end])}", end


_READERS: Mapping[int, Callable[[bytes, int, int], tuple[str, int]]] = {
    TYPES["A"]: _read_address,
    TYPES["AAAA"]: _read_address6,
    TYPES["NS"]: _read_target,
    TYPES["CNAME"]: _read_target,
    TYPES["PTR"]: _read_target,
    TYPES["DNAME"]: _read_target,
    TYPES["MX"]: _read_mail_server,
    TYPES["SRV"]: _read_server,
    TYPES["SOA"]: _read_authority,
    TYPES["TXT"]: _read_texts,
    TYPES["SPF"]: _read_texts,
    TYPES["CAA"]: _read_authorization,
}


def _read_name(message: bytes, position: int) -> tuple[str, int]:
    """A name with its last dot, and where it ends."""
    labels, end, bound = b"", 0, position
    while True:
        [size] = _take(message, position, 1)
        if size >= _POINTER:
            target = int.from_bytes(_take(message, position, 2)) & 0x3FFF
            end = end or position + 2
            if target >= bound:
                raise MalformedError("a name that leads forward")
            position = bound = target
            continue
        if size > _MAX_LABEL or len(labels) + size + 2 > _MAX_NAME:
            raise MalformedError("a malformed name")
        if not size:
            text = format_name(labels)
            return text if text == "." else f"{text}.", end or position + 1
        labels += _take(message, position, 1 + size)
        position += 1 + size


def _quote(text: bytes) -> str:
    return f'"{"".join(map(_escape, text))}"'


def _escape(byte: int) -> str:
    if byte in {_QUOTE, _BACKSLASH}:
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte <= 0x7E else f"\\{byte:03d}"


def _take(message: bytes, begin: int, size: int) -> bytes:
    if begin + size > len(message):
        raise MalformedError("cut off")
    return message[begin : begin + size]


def _unpack(form: struct.Struct, message: bytes, begin: int) -> tuple[int, ...]:
    return form.unpack(_take(message, begin, form.size))
