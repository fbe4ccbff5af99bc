"""Patches as flags carry them: the text itself, or ``@file``."""

from collections.abc import Iterable

from talos.config.change.patch import Patch, parse_patch
from talos.talosctl.output.files import read_file


def parse_patches(texts: Iterable[str]) -> list[Patch]:
    """The patches that the values of a flag mean, in order."""
    patches: list[Patch] = []
    for text in texts:
        if text.startswith("@"):
            patches.append(parse_patch(read_file(text[1:]), source=text[1:]))
        else:
            patches.append(parse_patch(text, source="patch"))
    return patches
