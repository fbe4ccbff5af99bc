"""The partitions of a system disk: what the installer makes, and what the machine adds on its first boots.

Disk images and installed machines have the same first ones, up to META.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

DISK = "disk"
"""The key of a disk's own id among the ids of its partitions."""

MIB = 1 << 20
GIB = 1 << 30

ESP_TYPE = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
BIOS_TYPE = "21686148-6449-6E6F-744E-656564454649"
LINUX_TYPE = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
SWAP_TYPE = "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"
LEGACY_BOOTABLE = "LegacyBIOSBootable"
"""sfdisk's name of bit 2 of a GPT partition's attributes: old firmware's boot loaders look for it."""

ALIGNMENT = MIB
"""Start of the first partition, and alignment of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A partition. ``size`` in bytes; ``filesystem`` empty where the content is raw."""

    label: str
    size: int
    type_uuid: str
    filesystem: str = ""
    attributes: str = ""


EFI = Area(label="EFI", size=100 * MIB, type_uuid=ESP_TYPE, filesystem="vfat")
BIOS = Area(label="BIOS", size=MIB, type_uuid=BIOS_TYPE, attributes=LEGACY_BOOTABLE)
BOOT = Area(label="BOOT", size=2000 * MIB, type_uuid=LINUX_TYPE, filesystem="xfs")
META = Area(label="META", size=MIB, type_uuid=LINUX_TYPE)
STATE = Area(label="STATE", size=100 * MIB, type_uuid=LINUX_TYPE, filesystem="xfs")
EPHEMERAL = Area(label="EPHEMERAL", size=2 * GIB, type_uuid=LINUX_TYPE, filesystem="xfs")
"""With the least size that it may have; it takes what is left of the disk."""

MARKS = (META.label, STATE.label)
"""What shows that a disk holds an installation: erased before anything else."""
INSTALLED = (EFI, BIOS, BOOT, META)
"""What the installer writes, in this order."""
UKI_EFI = Area(label=EFI.label, size=EFI.size + BIOS.size + BOOT.size, type_uuid=ESP_TYPE, filesystem="vfat")
"""Instead of the first three, where slots are UKIs: they lie where firmware can read them."""
UKI_INSTALLED = (UKI_EFI, META)
"""What the installer writes then. META is at the same place."""
SYSTEM = (*INSTALLED, STATE, EPHEMERAL)
"""What the machine's own software uses."""
DEDICABLE = ("ETCD", "CRI", "KUBELET", "LOG")
"""Volumes that are folders of EPHEMERAL, unless the config gives them a partition, labelled so."""

TABLE = MIB
"""Bytes that the second copy of the partition table takes at the end, rounded up."""
IMAGE_SIZE = ALIGNMENT + sum(area.size for area in INSTALLED) + TABLE
"""Bytes of the smallest disk image."""
MINIMUM_SIZE = ALIGNMENT + sum(area.size for area in SYSTEM) + TABLE
"""Bytes below which a machine could not run."""
RECOMMENDED_SIZE = 6 * GIB
"""Bytes below which there is a warning: images of containers would soon fill EPHEMERAL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A partition with its place: ``number`` from 1, ``start`` in bytes from the start of the disk."""

    area: Area
    number: int
    start: int


def place_areas(areas: tuple[Area, ...] = INSTALLED) -> tuple[Placed, ...]:
    """The partitions one after another; every size is a multiple of the alignment."""
    placed: list[Placed] = []
    start = ALIGNMENT
    for number, area in enumerate(areas, 1):
        placed.append(Placed(area=area, number=number, start=start))
        start += area.size
    return tuple(placed)


def place_area(area: Area) -> Placed:
    """One of the partitions that the installer makes."""
    return next(placed for placed in place_areas() if placed.area is area)


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
