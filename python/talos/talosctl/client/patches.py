"""Patches as flags carry them: the text itself, or a file."""

from collections.abc import Iterable

from talos.config.change.patch import Patch, parse_patch
from talos.system.errors import UserError
from talos.system.files import read_file

_INLINE = ("[", "{")


def parse_patches(texts: Iterable[str]) -> list[Patch]:
    """The patches that the values of a flag mean, in order.

    ``@file`` is a file. So is a value without ``@`` that can't be a patch: one on a single line, without a
    blank, that begins neither a mapping nor a list.
    """
    patches: list[Patch] = []
    for text in texts:
        path = text.removeprefix("@")
        if text == "@":
            raise UserError("@ names no file", where="patch", hint="give the patch itself, or @ and a name")
        is_inline = not text or text.startswith(_INLINE) or " " in text or "\n" in text
        if path != text or not is_inline:
            patches.append(parse_patch(read_file(path), source=path))
        else:
            patches.append(parse_patch(text, source="patch"))
    return patches
