"""The machine's disks as the installer sees them: what they are, what is on them, why one can't be taken."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from talos.api.definitions import block_pb2
from talos.disks.devices import read_disk_specs
from talos.disks.installation import find_system_disk
from talos.disks.raid.system import Statuses, find_boot_obstacle, map_members
from talos.resource.kinds import DISCOVERED_VOLUME, MD_ARRAY_STATUS
from talos.resource.resource import Resource
from talos.resource.state import State
from talos.system.block.blkid import TALOS_META
from talos.system.block.layout import INSTALLED, META, STATE, UKI_INSTALLED, place_areas
from talos.system.block.lvm import is_part
from talos.system.block.md import ARRAY
from talos.system.sizes import format_size

MEDIUM_FILESYSTEM = "iso9660"
MEDIUM_LABEL = "TALOS"
"""Label of the ISO, or what comes before an underscore in it."""
MAPPED = "/dev/dm-"
"""What the devices of encrypted volumes and of LVM begin with."""
BY_UUID = "/dev/disk/by-id/md-uuid-"
"""What a link to an array begins with, before its UUID with colons."""
LOGICAL = "/dev/disk/by-id/dm-uuid-LVM-"
"""What a link to a logical volume begins with, and to the parts of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A partition, or what fills a whole disk. ``offset`` and ``size`` in bytes."""

    name: str
    label: str
    filesystem: str
    offset: int
    size: int

    def __str__(self) -> str:
        parts = [self.label, self.filesystem, format_size(self.size)]
        return f"{self.name}: {', '.join(part for part in parts if part)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk with what was discovered on it. ``kind`` is what fills it, such as ``gpt`` or ``xfs``."""

    id: str
    spec: block_pb2.DiskSpec
    kind: str = ""
    label: str = ""
    contents: tuple[Content, ...] = ()
    is_system: bool = False
    array: str = ""
    """The array of software RAID that it is a member of, such as ``/dev/md0``."""
    is_part_of_system: bool = False
    """Whether that array has the system."""
    boot_obstacle: str = ""
    """Why firmware can't start from it, if it is an array."""

    @property
    def path(self) -> str:
        """The device, such as ``/dev/vda``."""
        return self.spec.dev_path

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found on it."""
        return not self.kind and not self.contents

    @property
    def is_unfinished(self) -> bool:
        """Whether an installation was begun here that did not come to its end.

        Its partitions are those of an installation, and META holds nothing: that is written last.
        """
        found = [(content.label, content.offset, content.size) for content in self.contents]
        wanted = [
            [(placed.area.label, placed.start, placed.area.size) for placed in place_areas(areas)]
            for areas in (INSTALLED, UKI_INSTALLED)
        ]
        return self.kind == "gpt" and found in wanted and not self.is_marked

    @property
    def is_marked(self) -> bool:
        """Whether it holds an installation: a META with its values, or a damaged one and a STATE."""
        held = {part.label: part.filesystem for part in self.contents}
        if held.get(META.label) == "":
            return bool(held.get(STATE.label))
        return held.get(META.label) == TALOS_META

    @property
    def is_logical(self) -> bool:
        """Whether it is a logical volume of LVM: a disk for a volume that takes all of it."""
        links = self.spec.symlinks
        return any(link.startswith(LOGICAL) for link in links) and not any(is_part(link) for link in links)

    @property
    def is_array(self) -> bool:
        """Whether it is an array of software RAID."""
        return self.path.startswith(ARRAY)

    @property
    def obstacle(self) -> str:
        """Why nothing can be installed here, whatever the config; empty when nothing is in the way."""
        if self.spec.cdrom:
            return "is an optical drive"
        if self.spec.readonly:
            return "is read-only"
        if self.path.startswith(MAPPED):
            return "is mapped to another device"
        if self.array:
            return f"is a member of the RAID array {self.array}"
        if self.boot_obstacle:
            return self.boot_obstacle
        found = [(self.kind, self.label), *((part.filesystem, part.label) for part in self.contents)]
        # A machine that has booted from it must not erase it.
        return "is the medium with the installer" if any(is_medium(*one) for one in found) else ""

    def describe(self) -> str:
        """One line for a person who has to recognise it."""
        spec = self.spec
        facts = [
            spec.model and f"model {spec.model}",
            spec.serial and f"serial {spec.serial}",
            format_size(spec.size),
            spec.transport or spec.sub_system.rpartition("/")[2],
        ]
        return f"{self.path}: {', '.join(fact for fact in facts if fact)}"

    def describe_content(self) -> str:
        """What is on it, in one line."""
        if self.is_empty:
            return "nothing"
        parts = [str(content) for content in self.contents]
        return f"{self.kind or 'something'}" + (f" ({'; '.join(parts)})" if parts else "")

    def variables(self) -> Mapping[str, Any]:
        """The variables of an expression that selects disks."""
        return {"disk": self.spec, "system_disk": self.is_system or self.is_part_of_system}


def make_wipe_hint(device: str) -> str:
    """What helps where content of a device keeps it from being used."""
    return f"if it may be lost: talosctl wipe disk {device.removeprefix('/dev/')}"


def is_medium(filesystem: str, label: str) -> bool:
    """Whether a filesystem is that of a medium with the installer."""
    return filesystem == MEDIUM_FILESYSTEM and label.split("_")[0] == MEDIUM_LABEL


async def read_disks(state: State) -> tuple[Disk, ...]:
    """Every disk, ordered by id."""
    return make_disks(
        await state.list(DISCOVERED_VOLUME),
        await read_disk_specs(state),
        await state.list(MD_ARRAY_STATUS),
        await find_system_disk(state),
    )


def make_disks(
    discovered: Sequence[Resource[block_pb2.DiscoveredVolumeSpec]],
    specs: Mapping[str, block_pb2.DiskSpec],
    statuses: Statuses,
    system: str,
) -> tuple[Disk, ...]:
    """Every disk, of resources that were read; ``system`` is the id of the system disk."""
    volumes = [(volume.id, volume.spec) for volume in discovered]
    arrays = map_members(specs)
    found: list[Disk] = []
    for name, spec in sorted(specs.items()):
        array = arrays.get(name, "")
        disk = replace(
            make_disk(name, spec, volumes, is_system=name == system),
            array=specs[array].dev_path if array else "",
            is_part_of_system=bool(array) and array == system,
        )
        if disk.is_array:
            disk = replace(disk, boot_obstacle=_find_boot_obstacle(disk, statuses, specs))
        found.append(disk)
    return tuple(found)


def _find_boot_obstacle(disk: Disk, statuses: Statuses, disks: Collection[str]) -> str:
    links = disk.spec.symlinks
    status = next((one.spec for one in statuses if f"{BY_UUID}{one.spec.uuid}" in links), None)
    if status is None:
        return "is a RAID array that is not examined yet"
    return find_boot_obstacle(status, whole_disks=all(name in disks for name in disk.spec.secondary_disks))


def find_installed_disk(disks: Sequence[Disk]) -> Disk | None:
    """The disk with this machine's installation, whether it runs from there or from another medium."""
    return next((disk for disk in disks if disk.is_system or disk.is_marked), None)


def make_disk(
    id: str,
    spec: block_pb2.DiskSpec,
    volumes: Sequence[tuple[str, block_pb2.DiscoveredVolumeSpec]],
    *,
    is_system: bool = False,
) -> Disk:
    """A disk with those of the discovered volumes that are on it."""
    whole = next((volume for name, volume in volumes if name == id), block_pb2.DiscoveredVolumeSpec())
    parts = [
        Content(
            name=name,
            label=volume.partition_label or volume.label,
            filesystem=volume.name,
            offset=volume.offset,
            size=volume.size,
        )
        for name, volume in volumes
        if volume.parent == id and name != id
    ]
    parts.sort(key=lambda part: part.offset)
    return Disk(
        id=id, spec=spec, kind=whole.name, label=whole.label, contents=tuple(parts), is_system=is_system
    )


def describe_all(disks: Sequence[Disk]) -> str:
    """The disks there are, for an error's hint."""
    if not disks:
        return "the machine has no disks, or none that the kernel supports"
    return "; ".join(disk.describe() + (f" ({disk.obstacle})" if disk.obstacle else "") for disk in disks)
