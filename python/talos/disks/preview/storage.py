"""What a config would make of RAID arrays and of LVM, in copies of what there is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from talos.config.documents.storage.lvm_logical_volume import LVMLogicalVolumeConfig
from talos.config.documents.storage.lvm_volume_group import LVMVolumeGroupConfig
from talos.config.documents.storage.raid_array import RAIDArrayConfig
from talos.config.model import Config
from talos.disks.lvm import specs as lvm
from talos.disks.lvm.plan import Growth, find_group_change, find_logical_change
from talos.disks.preview.copies import FoundDevices, TableCopies
from talos.disks.preview.layout import DiskLayout, Part
from talos.disks.raid import specs as raid
from talos.disks.raid.plan import Addition, Creation, make_plan
from talos.disks.raid.status import parse_array
from talos.system.block.lvm import MEMBER as PHYSICAL_VOLUME
from talos.system.block.lvm import LogicalVolume
from talos.system.block.md import MEMBER as ARRAY_MEMBER
from talos.system.errors import UserError


@dataclass(frozen=True, slots=True)
class Effects:
    """What is collected: the use of devices, layouts of what is made of them, why something is not made."""

    uses: dict[str, str] = field(default_factory=dict[str, str])
    layouts: dict[str, DiskLayout] = field(default_factory=dict[str, DiskLayout])
    problems: list[str] = field(default_factory=list[str])


def preview_arrays(found: FoundDevices, config: Config, copies: TableCopies, effects: Effects) -> None:
    """Blank devices become members; a new array has the size of its smallest one, but for its metadata."""
    arrays, members = [parse_array(status.spec) for status in found.arrays], raid.find_members(found.volumes)
    for wanted in raid.make_specs(config, found.volumes, found.disks):
        name = f"{RAIDArrayConfig.kind} {wanted.name}"
        problems = [*wanted.problems]
        try:
            plan = make_plan(wanted, arrays, members)
        except UserError as error:
            effects.problems.append(f"{name}: {error}")
            continue
        problems += [*plan.problems, plan.waiting]
        if isinstance(plan.change, Creation | Addition):
            for device in plan.change.devices:
                copies.contents[device] = ARRAY_MEMBER
        if isinstance(plan.change, Creation):
            size = min(copies.find_size(device) for device in plan.change.devices)
            effects.layouts[name] = DiskLayout(device=name, size=size, free=size)
        effects.uses.update(dict.fromkeys(wanted.devices, name))
        effects.problems.extend([f"{name}: {problem}" for problem in problems if problem])


def preview_lvm(found: FoundDevices, config: Config, copies: TableCopies, effects: Effects) -> None:
    """Blank devices become physical volumes; a group has the size of all of them, but for its metadata."""
    specs = lvm.make_specs(config, found.volumes, found.disks)
    effects.problems.extend([f"{problem.id}: {problem.message}" for problem in specs.problems])
    for wanted in specs.groups:
        name = f"{LVMVolumeGroupConfig.kind} {wanted.name}"
        try:
            change, reasons = find_group_change(wanted, found.lvm)
        except UserError as error:
            effects.problems.append(f"{name}: {error}")
            continue
        effects.problems.extend([f"{name}: {reason}" for reason in reasons])
        added = change.devices if change else ()
        for device in added:
            copies.contents[device] = PHYSICAL_VOLUME
        effects.uses.update(dict.fromkeys(wanted.devices, name))
        size = sum(int(group["vg_size"]) for group in found.lvm.find_groups(wanted.name))
        size += sum(map(copies.find_size, added))
        if not size:
            effects.problems.append(f"{name}: selects no device that there is now")
            continue
        volumes = [volume for volume in specs.logical if volume.group == wanted.name]
        parts = tuple(_list_logical(found, wanted.name, size, volumes, effects.problems))
        free = max(size - sum(part.size for part in parts), 0)
        effects.layouts[name] = DiskLayout(device=name, size=size, free=free, parts=parts)


def _list_logical(
    found: FoundDevices, group: str, size: int, wanted: Sequence[LogicalVolume], problems: list[str]
) -> Iterator[Part]:
    """Those that there are, grown, then new ones; ``size`` is the group's in bytes."""
    rows = {row["lv_name"]: row for row in found.lvm.logical if row["vg_name"] == group}
    by_name = {volume.name: volume for volume in wanted}
    for name, row in rows.items():
        current = int(row["lv_size"])
        if name in by_name:
            try:
                change = find_logical_change(by_name[name], found.lvm)
            except UserError as error:
                problems.append(str(error))
            else:
                current = change.size if isinstance(change, Growth) else current
        yield Part(label=name, size=current, volume=_name_logical(name) if name in by_name else "")
    for volume in wanted:
        if volume.name not in rows:
            share = size * volume.percent // 100 // (volume.mirrors + 1)
            yield Part(label=volume.name, size=volume.size or share, volume=_name_logical(volume.name))


def _name_logical(name: str) -> str:
    return f"{LVMLogicalVolumeConfig.kind} {name}"
