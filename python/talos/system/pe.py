"""EFI programs (PE32+) as files: their sections, their signatures, and the digest that a signature is of.

Microsoft's "PE Format" has the layout, and its "Windows Authenticode Portable Executable Signature Format"
the digest.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

MAX_SECTIONS = 96
"""As Microsoft's loader takes them; a UKI with two profiles has twelve."""
MAGIC = b"MZ"
"""What a program begins with."""
_PE, _PE32_PLUS = b"PE\0\0", 0x20B
_PLACE_OF_PE = 0x3C
HEADER = struct.Struct("<HHIIIHH")
"""Machine, number of sections, time, symbols, number of symbols, size of the optional header, flags."""
CHECKSUM, CERTIFICATES = 64, 144
"""Within the optional header: the checksum, and the entry for signatures among the data directories."""
_OPTIONAL = 152
"""Bytes of an optional header up to that entry's end."""
SECTION = struct.Struct("<8sIIIIIIHHI")
"""Name, size, address, size in the file, place in the file, and what images do not have."""
CERTIFICATE = struct.Struct("<IHH")
"""Length with this head, revision, type: what precedes a signature, all of it padded to 8 bytes."""
PKCS_SIGNED_DATA = 2
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a program. ``size`` is that of its content, without the padding that follows."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Program:
    """A program that begins at ``start`` of a file and has ``size`` bytes; ValueError for what is none."""

    file: BinaryIO
    size: int
    start: int = 0

    def list_sections(self) -> Sequence[Section]:
        """All of them, in their order; those of further profiles come after the first one's."""
        place = self.find_header()
        _, count, _, _, _, optional, _ = HEADER.unpack(self.read(place, HEADER.size))
        if count > MAX_SECTIONS:
            raise ValueError(f"{count} sections, at most {MAX_SECTIONS}")
        table = self.read(place + HEADER.size + optional, count * SECTION.size)
        found: list[Section] = []
        for name, size, _, stored, offset, *_ in SECTION.iter_unpack(table):
            text = name.rstrip(b"\0").decode("ascii", "replace")
            found.append(Section(name=text, offset=offset, size=min(size, stored)))
        return found

    def read_section(self, name: str, maximum: int) -> bytes:
        """The first section of a name; ValueError without one, and for more than ``most`` bytes."""
        section = self.find_section(name)
        if section.size > maximum:
            raise ValueError(f"{name} has {section.size} bytes, at most {maximum} are read")
        return self.read(section.offset, section.size)

    def find_section(self, name: str) -> Section:
        """The first section of a name; ValueError without one."""
        found = next((section for section in self.list_sections() if section.name == name), None)
        if found is None:
            raise ValueError(f"it has no section {name}")
        return found

    @property
    def has_signatures(self) -> bool:
        """Whether there are any."""
        return bool(self.find_certificates()[1])

    def read_signatures(self, maximum: int) -> Sequence[bytes]:
        """The signatures, PKCS #7 in DER; ValueError where they have more than ``most`` bytes."""
        offset, size = self.find_certificates()
        if size > maximum:
            raise ValueError(f"its signatures have {size} bytes, at most {maximum} are read")
        table, found = self.read(offset, size), list[bytes]()
        while len(table) >= CERTIFICATE.size:
            length, _, kind = CERTIFICATE.unpack_from(table)
            if not CERTIFICATE.size < length <= len(table):
                raise ValueError("the table of its signatures is damaged")
            if kind == PKCS_SIGNED_DATA:
                found.append(table[CERTIFICATE.size : length])
            table = table[-(-length // 8) * 8 :]
        return found

    def hash(self) -> bytes:
        """The SHA-256 that a signature is of: everything but the checksum and the signatures."""
        optional = self.find_header() + HEADER.size
        offset, size = self.find_certificates()
        if size and offset + size != self.size:
            raise ValueError("its signatures are not at its end")
        digest = hashlib.sha256()
        parts = (0, optional + CHECKSUM), (optional + CHECKSUM + 4, optional + CERTIFICATES)
        for begin, end in (*parts, (optional + _OPTIONAL, offset if size else self.size)):
            for piece in self._read_pieces(begin, end):
                digest.update(piece)
        return digest.digest()

    def hash_section(self, name: str) -> str:
        """The SHA-256 of the first section of a name, in hexadecimal."""
        return self.hash_content(self.find_section(name)).hex()

    def hash_content(self, section: Section) -> bytes:
        """The SHA-256 of a section."""
        digest = hashlib.sha256()
        for piece in self._read_pieces(section.offset, section.offset + section.size):
            digest.update(piece)
        return digest.digest()

    def read(self, offset: int, size: int) -> bytes:
        """A part; ValueError where it is not within the program."""
        if not 0 <= offset <= offset + size <= self.size:
            raise ValueError(f"it has {self.size} bytes, less than its header names")
        self.file.seek(self.start + offset)
        data = self.file.read(size)
        if len(data) != size:
            raise ValueError("it ends too early")
        return data

    def find_header(self) -> int:
        """The place of the header behind the letters ``PE``."""
        if self.read(0, len(MAGIC)) != MAGIC:
            raise ValueError("it is no EFI program")
        (place,) = struct.unpack("<I", self.read(_PLACE_OF_PE, 4))
        if self.read(place, 4) != _PE:
            raise ValueError("it is no EFI program")
        (magic,) = struct.unpack("<H", self.read(place + 4 + HEADER.size, 2))
        if magic != _PE32_PLUS:
            raise ValueError("it is no EFI program for 64 bits")
        return place + 4

    def _read_pieces(self, begin: int, end: int) -> Iterator[bytes]:
        for place in range(begin, end, _PIECE):
            yield self.read(place, min(_PIECE, end - place))

    def find_certificates(self) -> tuple[int, int]:
        """Place and size of the signatures; the size is 0 without any."""
        place = self.find_header() + HEADER.size + CERTIFICATES
        offset, size = struct.unpack("<II", self.read(place, 8))
        return offset, size
