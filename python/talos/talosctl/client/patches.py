"""Patches as flags carry them: the text itself, a file, or a URL."""

import os
from collections.abc import Iterable
from urllib.parse import urlsplit

from talos.config.change.patch import Patch, parse_patch
from talos.process.fetch import FetchBounds, FetchError, NotThereError, fetch
from talos.system.errors import UserError
from talos.system.files import read_file

BOUNDS = FetchBounds(max_bytes=1 << 20, timeout=30.0, silence=30.0)
"""Of a patch that a server has, as upstream."""
_INLINE = ("[", "{")


def parse_patches(texts: Iterable[str]) -> list[Patch]:
    """The patches that the values of a flag mean, in order.

    ``@file`` is a file, ``@https://host/file`` one that a server has. So is a value without ``@`` that
    can't be a patch: one on a single line, without a blank, that begins neither a mapping nor a list.
    UserError.
    """
    patches: list[Patch] = []
    for text in texts:
        path = text.removeprefix("@")
        if text == "@":
            raise UserError("@ names no file", where="patch", hint="give the patch itself, or @ and a name")
        is_inline = not text or text.startswith(_INLINE) or " " in text or "\n" in text
        if path != text or not is_inline:
            data = _fetch(path) if _is_url(path) else read_file(path)
            patches.append(parse_patch(data, source=path))
        else:
            patches.append(parse_patch(text, source="patch"))
    return patches


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False  # such as of half an IPv6 address
    return parts.scheme in {"http", "https"} and bool(parts.netloc)


def _fetch(url: str) -> bytes:
    try:
        return fetch(url, environment=os.environ, bounds=BOUNDS).data
    except (FetchError, NotThereError) as error:
        hint = "get the file yourself, and give its name"
        raise UserError(f"the patch can't be fetched: {error}", where=url, hint=hint) from None
