"""EFI programs signed for Secure Boot: a signature is written behind the program, and into its header.

Microsoft's "Windows Authenticode Portable Executable Signature Format" has the structures. ``sbsign`` and its
like need the private key itself, or an engine of OpenSSL; so this module writes what they would.
"""

import struct
from pathlib import Path
from typing import BinaryIO

from talos.secureboot.signed_data import (
    BITS,
    FIRST,
    SEQUENCE,
    SIGNED_DATA,
    SigningPair,
    encode,
    encode_digest,
    encode_object,
    sign_content,
)
from talos.system.pe import CERTIFICATE, CERTIFICATES, CHECKSUM, HEADER, PKCS_SIGNED_DATA, Program

_INDIRECT_DATA, _PE_IMAGE_DATA = "2b060104018237020104", "2b06010401823702010f"
"""Object identifiers: what is signed, a digest and of which kind of file it is; files like this one."""
_SECOND, _TEXT = 0xA2, 0x80
"""Tags of DER: a structure's part 2, a text in part 0."""
_REVISION = 0x0200
_ALIGNMENT = 8
"""Bytes; so are signatures placed and padded."""
_PIECE = 1 << 20


def add_signature(path: Path, pair: SigningPair) -> None:
    """Sign the program in a file, behind signatures that it has. ValueError for what is none, UserError."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        optional = Program(file, size).find_header() + HEADER.size
        size = _pad(file, size)
        program = Program(file, size)
        offset, before = program.find_certificates()
        signature = encode(
            SEQUENCE, encode_object(SIGNED_DATA), encode(FIRST, _sign_digest(program.hash(), pair))
        )
        length = CERTIFICATE.size + len(signature)
        row = CERTIFICATE.pack(length, _REVISION, PKCS_SIGNED_DATA) + signature
        row = row.ljust(-(-length // _ALIGNMENT) * _ALIGNMENT, b"\0")
        _put(file, size, row)
        place = struct.pack("<II", offset if before else size, before + len(row))
        _put(file, optional + CERTIFICATES, place)
        _put(file, optional + CHECKSUM, bytes(4))
        _put(file, optional + CHECKSUM, struct.pack("<I", _sum(file) + size + len(row)))


def _sign_digest(digest: bytes, pair: SigningPair) -> bytes:
    text = encode(_TEXT, "<<<Obsolete>>>".encode("utf-16-be"))
    link = encode(FIRST, encode(_SECOND, text))
    kind = encode(SEQUENCE, encode_object(_PE_IMAGE_DATA), encode(SEQUENCE, encode(BITS, b"\0"), link))
    return sign_content(_INDIRECT_DATA, kind + encode_digest(digest), pair)


def _pad(file: BinaryIO, size: int) -> int:
    """Fill the last 8 bytes up, as what is signed ends there; the size."""
    padded = -(-size // _ALIGNMENT) * _ALIGNMENT
    file.truncate(padded)
    return padded


def _sum(file: BinaryIO) -> int:
    """The sum of a file's numbers of 16 bits, in which each carry is added to the lowest bit.

    That is the remainder by 65535, but for the sum 0, which a program does not have.
    """
    total = 0
    file.seek(0)
    while piece := file.read(_PIECE):
        total += int.from_bytes(piece, "little") % 0xFFFF
    return total % 0xFFFF or 0xFFFF


def _put(file: BinaryIO, offset: int, data: bytes) -> None:
    file.seek(offset)
    file.write(data)
