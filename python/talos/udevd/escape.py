"""Names made of a device's own description: whatever it is, the result is one part of a path."""

import re

_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789#+-.:=@_")
_ASCII = 0x80


def encode(text: str) -> str:
    r"""As in by-label and by-partlabel: an unsafe character becomes ``\x20``; other letters stay."""
    return "".join(char if _is_safe(char) else f"\\x{ord(char):02x}" for char in text)


def replace(text: str) -> str:
    """As in by-id: blanks around go, those within become one ``_``, other unsafe characters ``_``."""
    joined = re.sub(r"\s+", "_", text.strip())
    return "".join(char if _is_safe(char) else "_" for char in joined)


def _is_safe(char: str) -> bool:
    return char in _SAFE or (ord(char) >= _ASCII and char.isprintable())
