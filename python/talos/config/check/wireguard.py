"""Keys of WireGuard."""

import base64
from collections.abc import Iterator

from talos.config.check.note import Note

_KEY_BYTES = 32


def check_key(key: str, at: Note) -> Iterator[Note]:
    """Base64 of 32 bytes."""
    try:
        valid = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except ValueError:
        valid = False
    if not valid:
        yield at.find("is no WireGuard key", hint=f"base64 of {_KEY_BYTES} bytes")
