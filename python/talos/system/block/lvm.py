"""LVM by Debian's ``lvm``: what it reports, and the commands that change something.

The program runs through an injected function, its settings are in ``/etc/lvm/lvm.conf``. Reports are JSON;
all of their values are texts, sizes in bytes. Names begin with no hyphen: they are arguments.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import trio

from talos.system.block.blkid import SECTOR
from talos.system.block.partitions import Run
from talos.system.errors import UserError
from talos.system.process import Finished, find_line

LVM = "/usr/sbin/lvm"
MEMBER = "LVM2_member"
"""libblkid's name for a physical volume."""

PHYSICAL = (
    "pv_name", "vg_name", "pv_uuid", "pv_fmt", "pv_allocatable", "pv_exported", "pv_missing", "pv_in_use",
    "pv_size", "dev_size", "pv_free", "pv_used", "pv_pe_count", "pv_pe_alloc_count", "pv_major", "pv_minor",
    "pv_tags",
)  # fmt: skip
GROUPS = (
    "vg_name", "vg_uuid", "vg_fmt", "vg_permissions", "vg_extendable", "vg_exported", "vg_partial",
    "vg_allocation_policy", "vg_clustered", "vg_shared", "vg_size", "vg_free", "vg_extent_size",
    "vg_extent_count", "vg_free_count", "max_lv", "max_pv", "lv_count", "pv_count", "snap_count",
    "vg_missing_pv_count", "vg_seqno", "vg_lock_type", "vg_systemid", "vg_tags",
)  # fmt: skip
LOGICAL = (
    "lv_path", "lv_dm_path", "lv_name", "lv_full_name", "vg_name", "lv_uuid", "lv_layout", "lv_role",
    "lv_permissions", "lv_allocation_policy", "lv_allocation_locked", "lv_fixed_minor", "lv_active",
    "lv_active_locally", "lv_active_remotely", "lv_active_exclusively", "lv_suspended", "lv_device_open",
    "lv_skip_activation", "lv_merging", "lv_converting", "lv_size", "lv_metadata_size", "lv_read_ahead",
    "lv_kernel_major", "lv_kernel_minor", "origin", "origin_size", "pool_lv", "data_lv", "metadata_lv",
    "move_pv", "convert_lv", "lv_when_full", "lv_tags",
)  # fmt: skip
"""The columns of each report, in the order of the fields of the API's messages."""
_NAME = re.compile(r"(?!-)[a-zA-Z0-9+_.-]{1,127}", re.ASCII)

_PART = re.compile(r".+_(rimage|rmeta)_[0-9]+", re.ASCII)

type Row = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LvmReport:
    """What is on the machine's disks; fields by lvm's names."""

    physical: Sequence[Row] = ()
    groups: Sequence[Row] = ()
    logical: Sequence[Row] = ()

    def find_physical(self, device: str) -> Row | None:
        """The physical volume on a device."""
        return next((row for row in self.physical if row["pv_name"] == device), None)

    def find_groups(self, name: str) -> list[Row]:
        """The groups of a name: several, where disks of another machine were added."""
        return [row for row in self.groups if row["vg_name"] == name]

    def find_logical(self, group: str, name: str) -> Row | None:
        """A logical volume."""
        return next((row for row in self.logical if row["vg_name"] == group and row["lv_name"] == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalVolume:
    """A logical volume to make: its ``size`` in bytes, or else its ``percent`` of the group."""

    group: str
    name: str
    type: str = "linear"
    mirrors: int = 0
    stripes: int = 0
    size: int = 0
    percent: int = 0


class Lvm:
    """Calls of lvm. UserError with the program's last line. ``make_blank`` erases both ends of a device."""

    def __init__(self, run: Run, make_blank: Callable[[str], None]) -> None:
        self._run = run
        self._make_blank = make_blank

    async def report(self) -> LvmReport:
        """All physical volumes, groups and visible logical volumes."""
        return LvmReport(
            physical=await self._read("pvs", "pv", PHYSICAL),
            groups=await self._read("vgs", "vg", GROUPS),
            logical=await self._read("lvs", "lv", LOGICAL),
        )

    async def activate(self, group: str) -> None:
        """Make the devices of a group's volumes, but for those that are not to be made by themselves.

        A mirrored volume that lacks a disk is among them.
        """
        await self._call(["vgchange", "-aay", group], group)

    async def deactivate(self, group: str) -> None:
        """Remove the devices of a group's volumes, but for those in use, which are an error."""
        await self._call(["vgchange", "-an", group], group)

    async def create_physical(self, device: str) -> None:
        """Make a device a physical volume. lvm refuses one with content that it recognises, or in use."""
        await self._call(["pvcreate", device], device)

    async def create_group(self, name: str, devices: Sequence[str]) -> None:
        """Make a group of physical volumes."""
        await self._call(["vgcreate", "--yes", name, *devices], name)

    async def extend_group(self, name: str, devices: Sequence[str]) -> None:
        """Add physical volumes to a group."""
        await self._call(["vgextend", "--yes", name, *devices], name)

    async def create_logical(self, volume: LogicalVolume) -> None:
        """Make a logical volume that is blank: what a removed one held must not reappear in it."""
        layout: list[str] = []
        if volume.type != "linear":
            layout += ["--type", volume.type]
        if volume.mirrors:
            layout += ["--mirrors", str(volume.mirrors)]
        if volume.stripes:
            layout += ["--stripes", str(volume.stripes)]
        sectors = -(-volume.size // SECTOR)  # lvm refuses others
        amount = ["-L", f"{sectors * SECTOR}b"] if volume.size else ["-l", f"{volume.percent}%VG"]
        where = f"{volume.group}/{volume.name}"
        await self._call(["lvcreate", "--yes", "-n", volume.name, *layout, *amount, volume.group], where)
        await trio.to_thread.run_sync(self._make_blank, f"/dev/{where}")

    async def extend_logical(self, group: str, name: str, size: int) -> None:
        """Make a logical volume so many bytes large, a multiple of the group's extents."""
        await self._call(["lvextend", "--yes", "-L", f"{size}b", f"{group}/{name}"], f"{group}/{name}")

    async def remove_logical(self, group: str, name: str) -> None:
        """Remove a logical volume that is not open."""
        await self._call(["lvremove", "--yes", f"{group}/{name}"], f"{group}/{name}")

    async def remove_group(self, name: str) -> None:
        """Remove a group with its logical volumes, none of them open."""
        await self._call(["vgremove", "--yes", name], name)

    async def remove_physical(self, device: str) -> None:
        """Make a physical volume that is in no group an ordinary device again."""
        await self._call(["pvremove", "--yes", device], device)

    async def _read(self, command: str, key: str, columns: Sequence[str]) -> list[Row]:
        argv = [command, "--reportformat", "json", "--units", "b", "--nosuffix", "-o", ",".join(columns)]
        done = await self._call(argv, command)
        try:
            reports = cast("dict[str, Any]", json.loads(done.stdout))["report"]
            return [
                {str(field): str(value) for field, value in row.items()}
                for report in reports
                for row in report[key]
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"lvm {command}'s answer can't be read: {error}", where="LVM") from None

    async def _call(self, argv: Sequence[str], where: str) -> Finished:
        done = await self._run([LVM, *argv], b"")
        if done.code:
            raise UserError(f"lvm {argv[0]} ended with {done.code}: {_find_reason(done)}", where=where)
        return done


def _find_reason(done: Finished) -> str:
    """The last line that is no warning."""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines()]
    reasons = [line for line in lines if line and not line.startswith("WARNING:")]
    return reasons[-1] if reasons else find_line(done, -1).strip()


def is_name(text: str) -> bool:
    """Whether lvm accepts a name of a group or a logical volume."""
    return bool(_NAME.fullmatch(text)) and text not in {".", ".."}


def is_part(mapped: str) -> bool:
    """Whether a mapped device is only a part of a logical volume, by its name: lvm reserves such names."""
    return bool(_PART.fullmatch(mapped))
