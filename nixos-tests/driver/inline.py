"""A config for the kernel's arguments: base64 of a zstd frame, which is stored as it is (RFC 8878, 3.1.1)."""

import base64

MAGIC = 0xFD2FB528
HEAD = 0xA0
"""One segment, and its size in four bytes."""
MAX_BYTES = 1024
"""Bytes; a kernel's command line has 2048."""


def inline_argument(text: str, name: str = "talos.config.inline") -> str:
    """The argument that gives this part of a config."""
    data = text.encode()
    assert len(data) <= MAX_BYTES, f"{len(data)} bytes are too many for the kernel's arguments: {MAX_BYTES}"
    block = (len(data) << 3) | 1  # the last one, stored
    frame = MAGIC.to_bytes(4, "little") + bytes([HEAD]) + len(data).to_bytes(4, "little")
    frame += block.to_bytes(3, "little") + data
    return f"{name}={base64.b64encode(frame).decode()}"
