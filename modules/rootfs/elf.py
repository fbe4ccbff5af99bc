"""What an ELF file needs: read from its dynamic section, without a tool that would have to run it."""

import struct
from pathlib import Path

MAGIC = b"\x7fELF\x02\x01"  # 64 bit, little endian
PT_LOAD, PT_DYNAMIC = 1, 2  # elf.h
DT_NULL, DT_NEEDED, DT_STRTAB = 0, 1, 5


def is_elf(path: Path) -> bool:
    """Whether a file is an ELF file of the image's machine."""
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def needed(path: Path) -> list[str]:
    """List the shared libraries a program or library asks for."""
    data = path.read_bytes()
    offset, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, offset + index * size) for index in range(count)]
    loads = [(header[3], header[2], header[5]) for header in headers if header[0] == PT_LOAD]
    dynamic = next((header for header in headers if header[0] == PT_DYNAMIC), None)
    if dynamic is None:
        return []
    entries = list(struct.iter_unpack("<qQ", data[dynamic[2] : dynamic[2] + dynamic[5]]))
    entries = entries[: next(index for index, entry in enumerate(entries) if entry[0] == DT_NULL)]
    strings_address = next(value for tag, value in entries if tag == DT_STRTAB)
    strings = next(
        strings_address - start + place
        for start, place, length in loads
        if start <= strings_address < start + length
    )
    return [text(data, strings + value) for tag, value in entries if tag == DT_NEEDED]


def text(data: bytes, start: int) -> str:
    """Read a string that ends in a zero byte."""
    return data[start : data.index(0, start)].decode()
