"""Databases of Secure Boot: what is in lists of signatures (UEFI specification 2.10, section 32.4.1)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

X509 = UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
"""The kind of an entry that is a certificate (DER)."""
OWNER = 16
"""Bytes before each entry: the GUID of the one who added it."""
LIST = struct.Struct("<16sIII")
"""A list's kind, its whole size, the size of a further header, and that of each entry with its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """An entry: a certificate, or the digest of an image, by its kind."""

    kind: UUID
    data: bytes


def parse_signatures(value: bytes) -> Sequence[Signature]:
    """The entries of a database. ValueError when the sizes in it do not add up."""
    found: list[Signature] = []
    while value:
        if len(value) < LIST.size:
            raise ValueError(f"{len(value)} bytes are no list of signatures")
        kind, size, header, entry = LIST.unpack_from(value)
        start = LIST.size + header
        if not start <= size <= len(value) or entry <= OWNER or (size - start) % entry:
            raise ValueError(f"a list of {size} bytes with entries of {entry}")
        found += [
            Signature(kind=UUID(bytes_le=kind), data=value[place + OWNER : place + entry])
            for place in range(start, size, entry)
        ]
        value = value[size:]
    return found
