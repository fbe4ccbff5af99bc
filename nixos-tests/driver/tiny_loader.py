"""A program for UEFI that writes a line to the serial line, and then returns an error, or hangs.

A PE32+ image with one section (https://learn.microsoft.com/windows/win32/debug/pe-format), for x86-64.
"""

import struct

from driver.tiny_kernel import WRITE_TEXT

_ERROR = 0x8000000000000003
"""EFI_UNSUPPORTED."""
_CODE = b"".join(
    (
        b"\x56\x48\x8d\x35\x26\x00\x00\x00",  # push rsi; lea rsi, [rip + 0x26]  the line
        WRITE_TEXT,
        b"\x48\xb8" + struct.pack("<Q", _ERROR),  # mov rax, error
        b"\x5e\xc3\x90",  # pop rsi; ret
    )
)
_HANG = b"\xeb\xfe\x90"
"""Instead of the last three bytes: jmp to itself. Interrupts are on, by which firmware's watchdog works."""
_HEADERS, _PAGE = 0x200, 0x1000


def make_loader(line: str, *, hangs: bool = False) -> bytes:
    """The file."""
    code = (_CODE[:-3] + _HANG if hangs else _CODE) + line.encode("ascii") + b"\r\n\0"
    assert len(code) <= _HEADERS
    file = bytearray(_HEADERS)
    struct.pack_into("<2s58xI", file, 0, b"MZ", 0x40)
    # Machine, sections, no symbols, size of what follows, EXECUTABLE_IMAGE | LARGE_ADDRESS_AWARE.
    struct.pack_into("<4sHHIIIHH", file, 0x40, b"PE\0\0", 0x8664, 1, 0, 0, 0, 0xF0, 0x22)
    sizes = (_HEADERS, 0, 0, _PAGE, _PAGE)  # of code and data; where it begins, where code is
    struct.pack_into("<HBBIIIII", file, 0x58, 0x20B, 0, 0, *sizes)
    struct.pack_into("<QII", file, 0x70, 0, _PAGE, 0x200)  # address, alignments
    struct.pack_into("<6HIIII", file, 0x80, 0, 0, 0, 0, 0, 0, 0, 2 * _PAGE, _HEADERS, 0)
    struct.pack_into("<HH4QII", file, 0x9C, 10, 0, 0, 0, 0, 0, 0, 16)  # an application for UEFI
    section = ("<8sIIII12xI", b".text", _HEADERS, _PAGE, _HEADERS, _HEADERS, 0x60000020)
    struct.pack_into(section[0], file, 0x58 + 0xF0, *section[1:])
    return bytes(file) + code.ljust(_HEADERS, b"\0")
