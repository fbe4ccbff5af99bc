"""What differs between what is wanted of LVM and what there is. Changes only ever add."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from talos.disks.lvm.specs import WantedGroup
from talos.system.block.lvm import LogicalVolume, LvmReport, Row
from talos.system.errors import UserError

_SLACK = 100
"""A size that differs by less than one part of so many stays as it is: lvm rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A group to make, or devices to add to it: ``blank`` ones become physical volumes first."""

    create: bool
    devices: tuple[str, ...]
    blank: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A logical volume to make so many bytes large."""

    group: str
    name: str
    size: int


def find_group_change(wanted: WantedGroup, report: LvmReport) -> tuple[GroupChange | None, list[str]]:
    """What a group needs, and why devices are not taken. UserError when the group can't change."""
    reasons: list[str] = []
    added: list[str] = []
    blank: list[str] = []
    for device in wanted.devices:
        row = report.find_physical(device)
        owner = row["vg_name"] if row else ""
        if owner and owner != wanted.name:
            reasons.append(
                f'{device} is in volume group "{owner}" already '
                f"(if that may be lost: talosctl wipe vg {owner})"
            )
        elif not owner:
            added.append(device)
            if row is None:
                blank.append(device)
    groups = report.find_groups(wanted.name)
    if not added:
        return None, reasons
    if groups:
        _check_group(wanted.name, groups)
    return GroupChange(create=not groups, devices=tuple(added), blank=tuple(blank)), reasons


def find_logical_change(wanted: LogicalVolume, report: LvmReport) -> LogicalVolume | Growth | None:
    """A volume to make or to grow. UserError when it can't be as it is wanted."""
    where = f"{wanted.group}/{wanted.name}"
    groups = report.find_groups(wanted.group)
    if not groups:
        raise UserError(
            f'there is no volume group "{wanted.group}"', where=where, hint="add its LVMVolumeGroupConfig"
        )
    if not (wanted.size or wanted.percent):
        raise UserError("its size is 0", where=where, hint="provisioning.maxSize: 10GiB, or 50%")
    row = report.find_logical(wanted.group, wanted.name)
    if row is None:
        (group,) = _check_group(where, groups)
        return _fill_stripes(wanted, int(group["pv_count"]))
    if wanted.type not in row["lv_layout"].split(","):
        raise UserError(
            f"it is {row['lv_layout']}, not {wanted.type}: the layout of a logical volume does not change",
            where=where,
            hint=f"to have it made anew, empty: talosctl wipe lv {where}",
        )
    return _find_growth(wanted, row, groups, where)


def _find_growth(wanted: LogicalVolume, row: Row, groups: Sequence[Row], where: str) -> Growth | None:
    """As far as the group has room, where the size is a share of it."""
    size, group = int(row["lv_size"]), groups[0]
    extent, copies = int(group["vg_extent_size"]), wanted.mirrors + 1
    target, minimum = wanted.size, size - size // _SLACK
    if not target:
        stripes = max(_count_stripes(wanted, int(group["pv_count"])), 1)
        # Each copy of a mirror has an extent for its own metadata.
        share = int(group["vg_extent_count"]) * wanted.percent // 100 // copies - (1 if wanted.mirrors else 0)
        target = share * extent
        minimum = min(
            minimum, size - (stripes + 1) * extent
        )  # for the metadata, and as lvm rounds up to stripes
        if target >= minimum:
            share = min(share, size // extent + int(group["vg_free_count"]) // copies)
            target = max(share // stripes * stripes * extent, size)
    if target < minimum:
        raise UserError(
            f"requested size {target} bytes is smaller than current size {size} bytes; "
            "shrinking logical volumes is not supported",
            where=where,
        )
    if target <= size + size // _SLACK:
        return None
    _check_group(where, groups)
    return Growth(group=wanted.group, name=wanted.name, size=-(-target // extent) * extent)


def _check_group(where: str, groups: Sequence[Row]) -> Sequence[Row]:
    """A group that may be changed: the one of its name, with all of its physical volumes."""
    if len(groups) > 1:
        raise UserError(
            f'{len(groups)} volume groups have the name "{groups[0]["vg_name"]}"',
            where=where,
            hint="remove the disks of the one that is not meant, or erase them: talosctl wipe disk",
        )
    missing = groups[0]["vg_missing_pv_count"]
    if missing not in {"", "0"}:
        raise UserError(
            f"the volume group lacks {missing} of its physical volumes: it is not changed",
            where=where,
            hint="connect its disks",
        )
    if groups[0]["vg_exported"]:
        raise UserError("the volume group is exported: it is not changed", where=where)
    return groups


def _fill_stripes(wanted: LogicalVolume, physical: int) -> LogicalVolume:
    """The volume with as many stripes as the group has physical volumes for, unless there is a number."""
    copies, stripes = wanted.mirrors + 1, _count_stripes(wanted, physical)
    needed = copies * max(stripes, 1)
    if physical < needed:
        raise UserError(
            "volume group has too few physical volumes for the requested layout: "
            f"{wanted.type} needs {needed}, it has {physical}",
            where=f"{wanted.group}/{wanted.name}",
        )
    return replace(wanted, stripes=stripes)


def _count_stripes(wanted: LogicalVolume, physical: int) -> int:
    """Over how many physical volumes it is spread; none for layouts that are not."""
    if wanted.type not in {"raid0", "raid10"}:
        return 0
    return wanted.stripes or max(physical // (wanted.mirrors + 1), 2)
