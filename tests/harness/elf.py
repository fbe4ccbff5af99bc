"""The smallest programs that a container can run: static, and without a library."""

import struct

_BASE = 0x400000
_HEADERS = 64 + 56


def make_program(text: bytes = b"") -> bytes:
    """An x86-64 program that writes a text to its standard output, and then waits for ever."""
    # write(1, text, len): mov eax,1; mov edi,1; lea rsi,[rip+7+9]; mov edx,len; syscall
    write = b"\xb8\x01\x00\x00\x00\xbf\x01\x00\x00\x00\x48\x8d\x35" + struct.pack("<i", 16)
    write += b"\xba" + struct.pack("<I", len(text)) + b"\x0f\x05"
    # pause(): mov eax,34; syscall; jmp back
    return _wrap(write + b"\xb8\x22\x00\x00\x00\x0f\x05\xeb\xf7" + text)


def make_end(code: int) -> bytes:
    """An x86-64 program that ends at once with an exit code."""
    # exit(code): mov eax,60; mov edi,code; syscall
    return _wrap(b"\xb8\x3c\x00\x00\x00\xbf" + struct.pack("<I", code) + b"\x0f\x05")


def _wrap(code: bytes) -> bytes:
    size = _HEADERS + len(code)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        2,  # an executable
        62,  # x86-64
        1,
        _BASE + _HEADERS,
        64,
        0,
        0,
        64,
        56,
        1,
        0,
        0,
        0,
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + code
