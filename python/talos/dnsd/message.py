"""DNS messages as a forwarder needs them: a question, the lifetime of an answer, a reply that fits. RFC 1035.

Records are measured, not read: of an answer only lifetimes and the borders of its records matter. Names in
answers are stepped over and pointers in them never followed, so that no answer can lead in a circle.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

HEADER = struct.Struct("!HHHHHH")
MAX_QUERY = 4096
"""Bytes. A query is a name, and a few options."""
MAX_REPLY = 65535
UDP_SIZE = 1232
"""Bytes of a message over UDP that no link has to fragment (DNS flag day 2020)."""
MIN_UDP_SIZE = 512
"""Bytes that a client without EDNS takes."""

A, SOA, AAAA, OPT, IXFR, AXFR, ANY = 1, 6, 28, 41, 251, 252, 255
IN = 1
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_SUCH_NAME, NOT_IMPLEMENTED, REFUSED = 0, 1, 2, 3, 4, 5

_RESPONSE, _TRUNCATED, _RECURSION_WANTED, _RECURSION_OFFERED = 0x8000, 0x0200, 0x0100, 0x0080
_AUTHENTIC, _CHECKING_DISABLED, _OPCODE, _CODE = 0x0020, 0x0010, 0x7800, 0x000F
_DNSSEC = 0x8000
_TYPE_CLASS = struct.Struct("!HH")
RECORD = struct.Struct("!HHIH")
_LONG = struct.Struct("!I")
_MAX_NAME, _MAX_LABEL, _POINTER = 255, 63, 0xC0
_NAME_OF_QUESTION = b"\xc0\x0c"


class MalformedError(ValueError):
    """A message that breaks off, or holds what it must not. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Query:
    """A client's question. ``name`` is in its form on the wire, as the client wrote it."""

    id: int
    name: bytes
    type: int
    dns_class: int
    udp_size: int
    has_edns: bool
    wants_dnssec: bool
    checking_disabled: bool

    @property
    def question(self) -> bytes:
        """The question section."""
        return self.name + _TYPE_CLASS.pack(self.type, self.dns_class)

    @property
    def key(self) -> bytes:
        """Questions with the same answer have the same key."""
        flags = self.wants_dnssec | self.checking_disabled << 1
        return self.name.lower() + bytes((self.type >> 8, self.type & 0xFF, self.dns_class & 0xFF, flags))


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer without EDNS, valid for ``seconds``; its records' TTLs are at ``lifetimes``."""

    data: bytes
    lifetimes: tuple[int, ...]
    seconds: int
    is_truncated: bool
    code: int


def parse_query(data: bytes) -> Query:
    """A query with one question; MalformedError.

    What is no query at all must not be answered, else two servers could answer each other for ever.
    """
    if len(data) < HEADER.size or len(data) > MAX_QUERY:
        raise MalformedError(f"{len(data)} bytes")
    number, flags, questions, answers, authorities, additional = HEADER.unpack_from(data)
    if flags & _RESPONSE:
        raise MalformedError("a response")
    if flags & _OPCODE or questions != 1 or answers or authorities or additional > 2:
        raise MalformedError("not one question")
    end = _skip_name(data, HEADER.size, may_point=False)
    if end + _TYPE_CLASS.size > len(data):
        raise MalformedError("cut off")
    kind, dns_class = _TYPE_CLASS.unpack_from(data, end)
    size, has_edns, wants_dnssec = MIN_UDP_SIZE, False, False
    position = end + _TYPE_CLASS.size
    for _ in range(additional):
        start = _skip_name(data, position)
        position = _skip_record(data, start)
        record_type, offered, extended, _ = RECORD.unpack_from(data, start)
        if record_type == OPT:
            if has_edns:
                raise MalformedError("EDNS twice")
            has_edns, wants_dnssec = True, bool(extended & _DNSSEC)
            size = max(MIN_UDP_SIZE, min(offered, UDP_SIZE))
    return Query(
        id=number,
        name=data[HEADER.size : end],
        type=kind,
        dns_class=dns_class,
        udp_size=size,
        has_edns=has_edns,
        wants_dnssec=wants_dnssec,
        checking_disabled=bool(flags & _CHECKING_DISABLED),
    )


def parse_reply(data: bytes, query: Query, number: int) -> Reply:
    """The answer to a query that was sent under a number; MalformedError, also when it is to another."""
    if len(data) < HEADER.size:
        raise MalformedError(f"{len(data)} bytes")
    found, flags, questions, answers, authorities, additional = HEADER.unpack_from(data)
    if found != number or not flags & _RESPONSE or flags & _OPCODE or questions != 1:
        raise MalformedError("not an answer to the query")
    end = _skip_name(data, HEADER.size, may_point=False) + _TYPE_CLASS.size
    if data[HEADER.size : end].lower() != query.question.lower():
        raise MalformedError("an answer to another question")
    records = _measure_records(data, end, answers, authorities, additional)
    code = flags & _CODE | records.extended_code
    header = HEADER.pack(
        0, flags | _RECURSION_OFFERED, 1, answers, authorities, additional - records.has_edns
    )
    is_held = code in {NO_ERROR, NO_SUCH_NAME} and not flags & _TRUNCATED
    return Reply(
        # What follows the last record belongs to no record, and is dropped.
        data=header + data[HEADER.size : records.end],
        lifetimes=records.lifetimes,
        seconds=records.seconds if is_held else 0,
        is_truncated=bool(flags & _TRUNCATED),
        code=code,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """The records of a reply but that of EDNS: where they end, where their TTLs are, the least of these."""

    end: int
    lifetimes: tuple[int, ...]
    seconds: int
    has_edns: bool
    extended_code: int


def _measure_records(data: bytes, end: int, answers: int, authorities: int, additional: int) -> _Records:
    lifetimes: list[int] = []
    seconds: int | None = None
    has_edns, extended_code = False, 0
    total = answers + authorities + additional
    for index in range(total):
        start = _skip_name(data, end)
        following = _skip_record(data, start)
        kind, _, lifetime, _ = RECORD.unpack_from(data, start)
        if kind == OPT:
            if index != total - 1 or not additional:
                raise MalformedError("EDNS is not the last additional record")
            has_edns, extended_code = True, (lifetime >> 24) << 4
            break
        end = following
        lifetimes.append(start + 4)
        # A lifetime with its highest bit set is none, RFC 2181 section 8.
        lifetime = 0 if lifetime >> 31 else lifetime
        if kind == SOA and not answers and answers <= index < answers + authorities:
            if end - start < RECORD.size + 20:
                raise MalformedError("a start of authority is cut off")
            lifetime = min(lifetime, _LONG.unpack_from(data, end - 4)[0])
        seconds = lifetime if seconds is None else min(seconds, lifetime)
    return _Records(
        end=end,
        lifetimes=tuple(lifetimes),
        seconds=seconds or 0,
        has_edns=has_edns,
        extended_code=extended_code,
    )


def make_query(query: Query, number: int) -> bytes:
    """The same question to another server. Nothing else of the client's message is passed on."""
    flags = _RECURSION_WANTED | (_CHECKING_DISABLED if query.checking_disabled else 0)
    flags |= _AUTHENTIC if query.wants_dnssec else 0
    return HEADER.pack(number, flags, 1, 0, 0, 1) + query.question + _make_edns(query)


def make_answer(query: Query, reply: Reply, age: int, limit: int) -> bytes:
    """A reply for a client, of at most so many bytes; its records have grown older by ``age`` seconds."""
    edns = _make_edns(query) if query.has_edns else b""
    if len(reply.data) + len(edns) > limit:
        _, flags, *_ = HEADER.unpack_from(reply.data)
        header = HEADER.pack(query.id, flags | _TRUNCATED, 1, 0, 0, bool(edns))
        return header + query.question + edns
    data = bytearray(reply.data)
    data[0:2] = query.id.to_bytes(2)
    # The client compares the question with its own, whose letters may differ in case.
    data[HEADER.size : HEADER.size + len(query.name)] = query.name
    if age:
        for offset in reply.lifetimes:
            (lifetime,) = _LONG.unpack_from(data, offset)
            _LONG.pack_into(data, offset, max(lifetime - age, 0))
    if edns:
        data[10:12] = (int.from_bytes(data[10:12]) + 1).to_bytes(2)
        data += edns
    return bytes(data)


def make_error(query: Query, code: int) -> bytes:
    """A reply that holds an error alone."""
    flags = _RESPONSE | _RECURSION_WANTED | _RECURSION_OFFERED | code
    edns = _make_edns(query) if query.has_edns else b""
    return HEADER.pack(query.id, flags, 1, 0, 0, bool(edns)) + query.question + edns


def make_header_error(data: bytes, code: int) -> bytes:
    """A reply to a query that can't be read; empty when it is not even one."""
    if len(data) < HEADER.size or data[2] & 0x80:
        return b""
    return HEADER.pack(int.from_bytes(data[:2]), _RESPONSE | _RECURSION_OFFERED | code, 0, 0, 0, 0)


def make_local_reply(query: Query, addresses: Sequence[IPv4Address | IPv6Address], seconds: int) -> Reply:
    """An answer of the node's own: those of the addresses that are of the requested type."""
    wanted = [address.packed for address in addresses if (A if address.version == 4 else AAAA) == query.type]
    flags = _RESPONSE | _RECURSION_WANTED | _RECURSION_OFFERED
    data = bytearray(HEADER.pack(0, flags, 1, len(wanted), 0, 0) + query.question)
    lifetimes: list[int] = []
    for packed in wanted:
        lifetimes.append(len(data) + len(_NAME_OF_QUESTION) + 4)
        data += _NAME_OF_QUESTION + RECORD.pack(query.type, IN, seconds, len(packed)) + packed
    return Reply(bytes(data), tuple(lifetimes), seconds, is_truncated=False, code=NO_ERROR)


def format_name(name: bytes) -> str:
    """A name for a log or a table; what is not printable is escaped as in zone files."""
    labels: list[str] = []
    position = 0
    while position < len(name) and name[position]:
        end = position + 1 + name[position]
        labels.append("".join(map(_escape, name[position + 1 : end])))
        position = end
    return ".".join(labels) or "."


def encode_name(text: str) -> bytes:
    """A host's name in lower case on the wire; ValueError when it is none."""
    labels = text.rstrip(".").lower().encode("ascii").split(b".")
    if not all(0 < len(label) <= _MAX_LABEL for label in labels):
        raise ValueError(f"{text!r} is no name")
    name = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    if len(name) > _MAX_NAME:
        raise ValueError("the name is too long")
    return name


def _make_edns(query: Query) -> bytes:
    flags = _DNSSEC if query.wants_dnssec else 0
    return b"\0" + RECORD.pack(OPT, UDP_SIZE, flags, 0)


def _escape(byte: int) -> str:
    is_plain = 0x21 <= byte <= 0x7E and byte not in b'.\\"();@$'
    return chr(byte) if is_plain else f"\\{byte:03d}"


def _skip_name(data: bytes, position: int, *, may_point: bool = True) -> int:
    begin = position
    while position < len(data):
        length = data[position]
        if length == 0:
            return position + 1
        if length >= _POINTER:
            if not may_point or position + 2 > len(data):
                break
            return position + 2
        if length > _MAX_LABEL:
            break
        position += 1 + length
        if position - begin >= _MAX_NAME:
            break
    raise MalformedError("a malformed name")


def _skip_record(data: bytes, start: int) -> int:
    if start + RECORD.size > len(data):
        raise MalformedError("cut off")
    end = start + RECORD.size + RECORD.unpack_from(data, start)[3]
    if end > len(data):
        raise MalformedError("cut off")
    return end
