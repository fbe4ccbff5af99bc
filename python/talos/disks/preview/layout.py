"""What is on a disk, as it is drawn for a person: its parts, and which volume each is for."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A partition, or what fills a whole disk, which has the number 0. ``start`` and ``size`` in bytes.

    ``content`` is libblkid's name for what it holds, ``volume`` the document that it is for.
    """

    number: int = 0
    label: str = ""
    content: str = ""
    start: int = 0
    size: int
    volume: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLayout:
    """A disk, or a RAID array or volume group by its document. ``size`` and ``free`` in bytes."""

    device: str
    size: int
    free: int = 0
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskChange:
    """What is on a disk, and what would be; of one that is made, the size before is 0."""

    before: DiskLayout
    after: DiskLayout


def release(layout: DiskLayout) -> DiskLayout:
    """The same parts, which are for no volume any more."""
    return replace(layout, parts=tuple(replace(part, volume="") for part in layout.parts))
