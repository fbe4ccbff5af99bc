"""What is added to a UKI after it was built: kernel arguments, and the signed policy of PCR 11.

The places of sections are as systemd's stub looks for them: what lies before the first ``.profile`` belongs
to all profiles, what follows one to that profile.
"""

import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from talos.pki.signer import Signer
from talos.system.errors import UserError
from talos.system.pe import HEADER, SECTION, Program
from talos.system.tpm.signed_policy import check_key, sign_values
from talos.system.tpm.uki import KEY, PROFILE, SIGNATURES, measure_profiles

CMDLINE = ".cmdline"
_COUNT = 2
"""Within the header: the number of sections."""
_DATA_SIZE, _ALIGNMENTS, _IMAGE_SIZE, _HEADERS_SIZE, _CHECKSUM = 8, 32, 56, 60, 64
"""Within the optional header. The alignments are two: in memory, in the file."""
_FLAGS = 0x40000040
"""Of a section: initialized data, readable."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A section to be written."""

    name: str
    data: bytes
    flags: int = _FLAGS


def add_signed_policy(source: Path, out: Path, signer: Signer) -> None:
    """Write a copy of a UKI with the sections. UserError for what is none that `.#uki` has made, OSError."""
    key = check_key(signer.public)
    shutil.copyfile(source, out)
    try:
        with out.open("r+b") as file:
            image = _Image(file, out.stat().st_size)
            public = _Part(KEY, key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
            end = image.write([public, *image.tail])
            signatures = [
                _Part(SIGNATURES, sign_values(signer, [value]))
                for value in measure_profiles(Program(file, end))
            ]
            image.write([public, *_interleave(image.tail, signatures)])
    except ValueError as error:
        raise UserError(str(error), where=str(source), hint="take the file of `nix build .#uki`") from None


def add_arguments(source: Path, out: Path, arguments: Sequence[str]) -> None:
    """Write a copy of a UKI whose kernels, in all profiles, have these, too.

    UserError for what is none that `.#uki` has made, OSError.
    """
    shutil.copyfile(source, out)
    try:
        with out.open("r+b") as file:
            image = _Image(file, out.stat().st_size, CMDLINE)
            image.write([_extend(part, arguments) if part.name == CMDLINE else part for part in image.tail])
    except ValueError as error:
        raise UserError(str(error), where=str(source), hint="take the file of `nix build .#uki`") from None


def _extend(part: _Part, arguments: Sequence[str]) -> _Part:
    """A command line with these arguments, too; the stub reads it up to a zero."""
    line = part.data.rstrip(b"\0 \n").decode()
    return replace(part, data=" ".join([line, *arguments]).encode())


def _interleave(tail: Sequence[_Part], signatures: Sequence[_Part]) -> Iterator[_Part]:
    """The signatures of a profile as the last of its sections."""
    left = iter(signatures)
    for number, part in enumerate(tail):
        if part.name == PROFILE and number:
            yield next(left)
        yield part
    yield next(left)


class _Image:
    """A UKI whose sections from the first one of a name on, the ``tail``, are written anew. ValueError.

    There is no gap between sections: programs that sign and verify differ in what they take of one.
    """

    def __init__(self, file: BinaryIO, size: int, first: str = PROFILE) -> None:
        self._file = file
        program = Program(file, size)
        sections = program.list_sections()
        names = [section.name for section in sections]
        for name in (KEY, SIGNATURES):
            if name in names:
                raise ValueError(f"it has a section {name} already")
        if program.has_signatures:
            raise ValueError("it is signed already")
        kept = names.index(first) if first in names else len(names)
        place = program.find_header()
        self._header = place
        *_, optional, _ = HEADER.unpack(program.read(place, HEADER.size))
        self._optional = place + HEADER.size
        self._table = self._optional + optional
        rows = [
            SECTION.unpack(program.read(self._table + number * SECTION.size, SECTION.size))
            for number in range(len(sections))
        ]
        self._kept = rows[:kept]
        if not self._kept:
            raise ValueError(f"it has no section before the first {first}")
        self.tail = [
            _Part(section.name, program.read(section.offset, section.size), row[-1])
            for section, row in zip(sections[kept:], rows[kept:], strict=True)
        ]
        alignments = program.read(self._optional + _ALIGNMENTS, 8)
        self._in_memory, self._in_file = struct.unpack("<II", alignments)
        (self._room,) = struct.unpack("<I", program.read(self._optional + _HEADERS_SIZE, 4))
        (self._data_size,) = struct.unpack("<I", program.read(self._optional + _DATA_SIZE, 4))
        self._data_size -= sum(len(part.data) for part in self.tail)
        if not self._in_memory or not self._in_file:
            raise ValueError("it has no alignments")

    def write(self, parts: Sequence[_Part]) -> int:
        """Write these behind the sections that stay; the file's size."""
        address = max(_align(row[2] + row[1], self._in_memory) for row in self._kept)
        offset = max(_align(row[4] + row[3], self._in_file) for row in self._kept)
        count = len(self._kept) + len(parts)
        if self._table + count * SECTION.size > self._room:
            raise ValueError(f"its header has no room for {count} sections")
        table = b""
        for part in parts:
            stored = _align(len(part.data), self._in_file)
            fields = (part.name.encode(), len(part.data), address, stored, offset, 0, 0, 0, 0, part.flags)
            table += SECTION.pack(*fields)
            self._put(offset, part.data.ljust(stored, b"\0"))
            address += _align(len(part.data), self._in_memory)
            offset += stored
        self._put(self._table + len(self._kept) * SECTION.size, table)
        self._put(self._header + _COUNT, struct.pack("<H", count))
        data_size = self._data_size + sum(len(part.data) for part in parts)
        self._put(self._optional + _DATA_SIZE, struct.pack("<I", data_size))
        self._put(self._optional + _IMAGE_SIZE, struct.pack("<I", address))
        self._put(self._optional + _CHECKSUM, bytes(4))
        self._file.truncate(offset)
        self._file.flush()
        return offset

    def _put(self, offset: int, data: bytes) -> None:
        self._file.seek(offset)
        self._file.write(data)


def _align(size: int, step: int) -> int:
    return -(-size // step) * step
