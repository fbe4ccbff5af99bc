"""File modes as the API has them: Go's ``fs.FileMode``, whose type bits are not Unix'."""

_TYPE_LETTERS = "dalTLDpSugct?"
"""From bit 31 downward, as in Go's io/fs documentation."""
_PERMISSIONS = "rwxrwxrwx"


def format_mode(mode: int) -> str:
    """``drwxr-xr-x``, ``Lrwxrwxrwx``, ``-rw-------``."""
    kinds = "".join(letter for bit, letter in enumerate(_TYPE_LETTERS) if mode & 1 << (31 - bit))
    bits = "".join(letter if mode & 1 << (8 - bit) else "-" for bit, letter in enumerate(_PERMISSIONS))
    return (kinds or "-") + bits
