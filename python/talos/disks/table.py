"""The partition table as a script for sfdisk."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from talos.disks.layout import Placed

DISK = "disk"
"""The key of the disk's own id among ids."""


def make_table(places: Sequence[Placed], *, sector_size: int, ids: Mapping[str, UUID] | None = None) -> str:
    """A script for ``sfdisk``. Without ``ids`` (by label, and the disk's own) they are random."""
    ids = ids or {}
    lines = ["label: gpt", "unit: sectors"]
    if DISK in ids:
        lines.append(f"label-id: {ids[DISK]}")
    for placed in places:
        area = placed.area
        fields = [
            f"start={placed.start // sector_size}",
            f"size={area.size // sector_size}",
            f"type={area.type_uuid}",
            f'name="{area.label}"',
        ]
        if area.label in ids:
            fields.append(f"uuid={ids[area.label]}")
        if area.attributes:
            fields.append(f'attrs="{area.attributes}"')
        lines.append(f"{placed.number} : {', '.join(fields)}")
    return "\n".join(lines) + "\n"
