"""What a config would make of a node's disks: the node's own decisions, on copies of its partition tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.model import Config
from talos.disks.disk import Disk, make_disks
from talos.disks.preview.copies import FoundDevices, TableCopies
from talos.disks.preview.layout import DiskChange, DiskLayout, Part, release
from talos.disks.preview.storage import Effects, preview_arrays, preview_lvm
from talos.disks.volumes.choice import find_devices, name_volume
from talos.disks.volumes.filesystem import LUKS
from talos.disks.volumes.settle import settle_partition
from talos.disks.volumes.specs import NUMBER, OBSTACLE, VOLUME_SELECTOR
from talos.disks.volumes.status import make_wanted_volume
from talos.disks.volumes.system import find_order, make_all_volumes
from talos.disks.volumes.user import find_place
from talos.disks.volumes.volume import GPT, VolumeProgress
from talos.disks.volumes.whole_disk import check_single
from talos.system.errors import UserError
from talos.system.logging import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskPreview:
    """What would become of the disks, and why something would not be made as it is configured."""

    changes: Sequence[DiskChange] = ()
    problems: Sequence[str] = ()


async def preview_disks(found: FoundDevices, before: Config, after: Config) -> DiskPreview:
    """The disks of which ``after`` makes something else than ``before``, the config in force, does.

    A node without an installation has none: what an installation does, its own dry run shows.
    """
    if not found.system[0]:
        return DiskPreview()
    old, new = await _preview(found, before), await _preview(found, after)
    today = _list_layouts(TableCopies(found), old.effects)
    changes = [
        DiskChange(before=today.get(device, DiskLayout(device=device, size=0)), after=layout)
        for device, layout in new.layouts.items()
        if layout != old.layouts.get(device)
    ]
    # What a document made stays when the document goes.
    changes += [
        DiskChange(before=today[device], after=release(today[device]))
        for device in old.layouts
        if device not in new.layouts
    ]
    problems = [text for text in new.effects.problems if text not in old.effects.problems]
    return DiskPreview(changes=changes, problems=problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    layouts: Mapping[str, DiskLayout]
    effects: Effects


async def _preview(found: FoundDevices, config: Config) -> _Result:
    """Volumes in the order in which a machine makes them, after what they may lie on."""
    copies, effects = TableCopies(found), Effects()
    preview_arrays(found, config, copies, effects)
    preview_lvm(found, config, copies, effects)
    disks = make_disks(found.volumes, found.disks, found.arrays, found.system[1])
    volumes = make_all_volumes(config, list(found.disks.values()), has_partitions=True)
    ordered = sorted(volumes, key=lambda volume: (*find_order(volume, volumes[volume][0]), volume))
    for volume in ordered:
        spec, annotations = volumes[volume]
        try:
            device = await _settle(found, disks, copies, volume, spec, annotations)
        except UserError as error:
            effects.problems.append(str(error))
            continue
        if device and (place := find_place(volume)):
            effects.uses[device] = place
    return _Result(layouts=_list_layouts(copies, effects), effects=effects)


async def _settle(
    found: FoundDevices,
    disks: Sequence[Disk],
    copies: TableCopies,
    volume: str,
    spec: block_pb2.VolumeConfigSpec,
    annotations: Mapping[str, str],
) -> str:
    """Make a volume in the copies; its device, empty for one that makes nothing on a disk. UserError."""
    is_disk = spec.type == enums.VOLUME_TYPE_DISK
    is_partition = spec.type == enums.VOLUME_TYPE_PARTITION and spec.provisioning.HasField("partition_spec")
    if not (is_disk or is_partition) or VOLUME_SELECTOR in annotations:
        return ""
    if obstacle := annotations.get(OBSTACLE):
        raise UserError(obstacle, where=name_volume(volume))
    devices = find_devices(disks, volume, spec, annotations, found.system[0])
    wanted = make_wanted_volume(volume, spec, number=int(annotations.get(NUMBER, 0)))
    content = LUKS if spec.HasField("encryption") else wanted.filesystem
    if is_disk:
        device = check_single(wanted, devices)
        if copies.contents[device] not in {"", content, LUKS}:
            raise UserError(f"{device} holds {copies.contents[device]}: it is not written over", where=volume)
    else:
        settled = await settle_partition(copies, wanted, devices, _make_quiet_log(), VolumeProgress())
        if settled is None:
            return ""
        disk, row = settled
        device = copies.name_partition(disk, row.number)
    copies.contents[device] = copies.contents.get(device) or content
    return device


def _make_quiet_log() -> Log:
    return Log(write=lambda _: None)


def _list_layouts(copies: TableCopies, effects: Effects) -> Mapping[str, DiskLayout]:
    return {disk: _make_layout(copies, disk, effects.uses) for disk in copies.disks} | effects.layouts


def _make_layout(copies: TableCopies, disk: str, uses: Mapping[str, str]) -> DiskLayout:
    return DiskLayout(
        device=disk,
        size=copies.find_size(disk),
        free=copies.find_free(disk),
        parts=tuple(_list_parts(copies, disk, uses)),
    )


def _list_parts(copies: TableCopies, disk: str, uses: Mapping[str, str]) -> Iterator[Part]:
    rows = copies.list_rows(disk)
    if not rows and copies.contents[disk] not in {"", GPT}:
        yield Part(content=copies.contents[disk], size=copies.find_size(disk), volume=uses.get(disk, ""))
    for row in rows:
        device = copies.name_partition(disk, row.number)
        yield Part(
            number=row.number,
            label=row.label,
            content=copies.contents.get(device, ""),
            start=row.start,
            size=row.size,
            volume=uses.get(device, ""),
        )
