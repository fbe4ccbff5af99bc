"""Databases of Secure Boot: what is in lists of signatures (UEFI specification 2.10, section 32.4.1)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

X509 = UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
"""The kind of an entry that is a certificate (DER)."""
SHA256 = UUID("c1c41626-504c-4092-aca9-41f936934328")
"""The kind of an entry that is the digest of a program, as its signature is of."""
X509_SHA256 = UUID("3bd2a492-96c0-4079-b420-fcf98ef103ed")
"""The kind of an entry that is the digest of a certificate's signed part, with a time behind it."""
OWNER = 16
"""Bytes before each entry: the GUID of the one who added it."""
LIST = struct.Struct("<16sIII")
"""A list's kind, its whole size, the size of a further header, and that of each entry with its owner."""
_MOMENT = 16
"""Bytes of the EFI_TIME that a signed update begins with."""
_CERTIFICATE = struct.Struct("<I")
"""Behind it: the size of its signature, this field included (section 8.2.2)."""


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


def parse_update(update: bytes) -> Sequence[Signature]:
    """The entries of a signed update of a database, a file ``.auth``; its signature is left to the firmware.

    ValueError for what is no such file.
    """
    if len(update) < _MOMENT + _CERTIFICATE.size:
        raise ValueError(f"{len(update)} bytes are no signed update")
    (size,) = _CERTIFICATE.unpack_from(update, _MOMENT)
    if not _CERTIFICATE.size < size <= len(update) - _MOMENT:
        raise ValueError(f"its signature has {size} bytes, the file {len(update)}")
    entries = parse_signatures(update[_MOMENT + size :])
    if not entries:
        raise ValueError("it has no entries")
    return entries
