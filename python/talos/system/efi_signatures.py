"""Databases of Secure Boot: what is in lists of signatures (UEFI specification 2.10, section 32.4.1)."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
    """An entry: a certificate, or the digest of an image, by its kind; its owner makes no difference."""

    kind: UUID
    data: bytes
    owner: bytes = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _List:
    """A list of a database; ``further`` is between its header and its entries."""

    kind: bytes
    further: bytes
    entries: Sequence[bytes]

    def pack(self, entries: Sequence[bytes]) -> bytes:
        """The same list with these of its entries."""
        size = LIST.size + len(self.further) + sum(map(len, entries))
        head = LIST.pack(self.kind, size, len(self.further), len(self.entries[0]))
        return head + self.further + b"".join(entries)


def parse_signatures(value: bytes) -> Sequence[Signature]:
    """The entries of a database. ValueError when the sizes in it do not add up."""
    return [
        Signature(kind=UUID(bytes_le=each.kind), data=entry[OWNER:], owner=entry[:OWNER])
        for each in _split(value)
        for entry in each.entries
    ]


def add_update(value: bytes, update: bytes) -> bytes:
    """A database after a signed update was added to it, as firmware stores it. ValueError.

    What it has already, of the same owner, is left out (UEFI specification 2.10, section 8.2; EDK II).
    """
    present = {(each.kind, entry) for each in _split(value) for entry in each.entries}
    for each in _split(_cut_signature(update)):
        if new := [entry for entry in each.entries if (each.kind, entry) not in present]:
            value += each.pack(new)
    return value


def _split(value: bytes) -> Iterator[_List]:
    while value:
        if len(value) < LIST.size:
            raise ValueError(f"{len(value)} bytes are no list of signatures")
        kind, size, header, entry = LIST.unpack_from(value)
        start = LIST.size + header
        if not start <= size <= len(value) or entry <= OWNER or (size - start) % entry:
            raise ValueError(f"a list of {size} bytes with entries of {entry}")
        entries = [value[place : place + entry] for place in range(start, size, entry)]
        yield _List(kind=kind, further=value[LIST.size : start], entries=entries)
        value = value[size:]


def parse_update(update: bytes) -> Sequence[Signature]:
    """The entries of a signed update of a database, a file ``.auth``; its signature is left to the firmware.

    ValueError for what is no such file.
    """
    entries = parse_signatures(_cut_signature(update))
    if not entries:
        raise ValueError("it has no entries")
    return entries


def _cut_signature(update: bytes) -> bytes:
    """The lists in a signed update."""
    if len(update) < _MOMENT + _CERTIFICATE.size:
        raise ValueError(f"{len(update)} bytes are no signed update")
    (size,) = _CERTIFICATE.unpack_from(update, _MOMENT)
    if not _CERTIFICATE.size < size <= len(update) - _MOMENT:
        raise ValueError(f"its signature has {size} bytes, the file {len(update)}")
    return update[_MOMENT + size :]
