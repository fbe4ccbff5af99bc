"""A disk before and after a change, as a table: a row for each partition."""

from collections.abc import Sequence

from talos.disks.preview.layout import DiskChange, DiskLayout, Part
from talos.system.sizes import format_size
from talos.talosctl.output.table import format_table

_NONE = "-"


def format_disk(change: DiskChange) -> Sequence[str]:
    """The lines: the disk, its parts in the order of their places, what is free."""
    before, after = change.before, change.after
    rows = [(f"{after.device}, {format_size(after.size)}", "TODAY", "AFTER", "")]
    olds = {_find_key(part): part for part in before.parts}
    news = {_find_key(part): part for part in after.parts}
    keys = sorted(olds.keys() | news.keys(), key=lambda key: (olds | news)[key].start)
    rows += [_format_row(olds.get(key), news.get(key)) for key in keys]
    rows.append(("free", _format_free(before), _format_free(after), ""))
    return format_table(rows).splitlines()


def _find_key(part: Part) -> tuple[int, str]:
    return part.number, part.label


def _format_row(before: Part | None, after: Part | None) -> tuple[str, str, str, str]:
    part = after or before
    assert part is not None
    name = " ".join(filter(None, (str(part.number) if part.number else "", part.label))) or "whole disk"
    return name, _format_part(before), _format_part(after), _describe(before, after)


def _format_part(part: Part | None) -> str:
    return f"{format_size(part.size)} {part.content}".rstrip() if part else _NONE


def _format_free(layout: DiskLayout) -> str:
    return format_size(layout.free) if layout.size else _NONE


def _describe(before: Part | None, after: Part | None) -> str:
    """What happens to a part, with the document that it is for."""
    if before is None or after is None:
        return f"new: {after.volume}".removesuffix(": ") if after else ""
    if after.size > before.size:
        return "grows at the next boot" if after.number else "grows"
    if before.volume and not after.volume:
        return f"stays, without {before.volume}"
    return ""
