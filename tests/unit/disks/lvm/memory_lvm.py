"""lvm in memory: its reports are those of lvm 2.03.31, its changes are of the kind that the tests need."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from talos.api.definitions import block_pb2
from talos.config.model import Config
from talos.config.read.loader import load
from talos.resource import kinds
from talos.resource.resource import Resource, make_resource
from talos.system.block.lvm import GROUPS, LOGICAL, LVM, PHYSICAL, Lvm
from talos.system.process import Finished

EXTENT = 4 << 20
EXTENTS = 127
"""Of a device of 512 MiB."""
_PHYSICAL = {
    "pv_uuid": "0fXTIK-Y35q-aH0e-fjVQ-vbBo-PY9b-a9ssB6", "pv_fmt": "lvm2", "pv_allocatable": "allocatable",
    "pv_size": "532676608", "dev_size": "536870912", "pv_free": "532676608", "pv_used": "0",
    "pv_pe_count": "127", "pv_pe_alloc_count": "0", "pv_major": "7", "pv_minor": "3",
}  # fmt: skip
_GROUP = {
    "vg_fmt": "lvm2", "vg_permissions": "writeable", "vg_extendable": "extendable",
    "vg_allocation_policy": "normal", "vg_extent_size": str(EXTENT), "max_lv": "0", "max_pv": "0",
    "snap_count": "0", "vg_seqno": "2",
}  # fmt: skip
_LOGICAL = {
    "lv_uuid": "dtEV9T-6j55-h4dj-3xi1-cRha-RRw7-ruzOSs", "lv_role": "public", "lv_permissions": "writeable",
    "lv_allocation_policy": "inherit", "lv_active": "active", "lv_read_ahead": "auto",
    "lv_kernel_major": "252", "lv_kernel_minor": "0",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Logical:
    group: str
    name: str
    layout: str = "linear"
    size: int = 0
    copies: int = 1
    is_open: bool = False


@dataclass
class MemoryLvm:
    """Devices with the groups that they are in, and logical volumes. ``failing`` commands fail."""

    physical: dict[str, str] = field(default_factory=dict[str, str])
    logical: list[Logical] = field(default_factory=list[Logical])
    missing: dict[str, int] = field(default_factory=dict[str, int])
    twice: set[str] = field(default_factory=set[str])
    """Groups of which there is another one with the same name."""
    failing: dict[str, str] = field(default_factory=dict[str, str])
    calls: list[Sequence[str]] = field(default_factory=list[Sequence[str]])
    blank: list[str] = field(default_factory=list[str])

    @property
    def lvm(self) -> Lvm:
        return Lvm(self.run, self.blank.append)

    @property
    def changes(self) -> list[str]:
        """The commands that are no reports."""
        return [" ".join(call) for call in self.calls if call[0] not in {"pvs", "vgs", "lvs"}]

    async def run(self, argv: Sequence[str], stdin: bytes) -> Finished:
        assert argv[0] == LVM
        assert stdin == b""
        command, *rest = argv[1:]
        self.calls.append(argv[1:])
        if command in self.failing:
            return Finished(code=5, stderr=f"  {self.failing[command]}\n  WARNING: x\n".encode())
        reports = {"pvs": self._report_physical, "vgs": self._report_groups, "lvs": self._report_logical}
        if command in reports:
            key = command[:2]
            return Finished(code=0, stdout=json.dumps({"report": [{key: reports[command]()}]}).encode())
        self._change(command, [word for word in rest if word != "--yes"])
        return Finished(code=0)

    def _change(self, command: str, rest: Sequence[str]) -> None:
        match command, rest:
            case "pvcreate", [device]:
                self.physical[device] = ""
            case "pvremove", [device]:
                del self.physical[device]
            case (("vgcreate" | "vgextend"), [name, *devices]):
                self.physical |= dict.fromkeys(devices, name)
            case "vgremove", [name]:
                self.physical = {
                    device: "" if group == name else group for device, group in self.physical.items()
                }
                self.logical = [volume for volume in self.logical if volume.group != name]
            case "lvcreate", ["-n", name, *options, group]:
                values = dict(zip(options[::2], options[1::2], strict=True))
                copies = int(values.get("--mirrors", "0")) + 1
                percent = int(values.get("-l", "0%VG").removesuffix("%VG"))
                size = int(values.get("-L", "0b").removesuffix("b"))
                size = size or self._extents(group) * percent // 100 // copies * EXTENT
                layout = f"raid,{values['--type']}" if "--type" in values else "linear"
                self.logical.append(Logical(group=group, name=name, layout=layout, size=size, copies=copies))
            case "lvextend", ["-L", size, place]:
                self.logical = [
                    replace(volume, size=int(size.removesuffix("b")))
                    if f"{volume.group}/{volume.name}" == place
                    else volume
                    for volume in self.logical
                ]
            case "lvremove", [place]:
                self.logical = [volume for volume in self.logical if f"{volume.group}/{volume.name}" != place]
            case _:
                assert command == "vgchange"

    def _extents(self, group: str) -> int:
        return EXTENTS * list(self.physical.values()).count(group)

    def _report_physical(self) -> list[Mapping[str, str]]:
        return [
            _fill(PHYSICAL, _PHYSICAL, pv_name=device, vg_name=group)
            for device, group in self.physical.items()
        ]

    def _report_groups(self) -> list[Mapping[str, str]]:
        found: list[Mapping[str, str]] = []
        for name in dict.fromkeys(filter(None, self.physical.values())):
            volumes = [volume for volume in self.logical if volume.group == name]
            used = sum(volume.size // EXTENT * volume.copies for volume in volumes)
            count = self._extents(name)
            row = _fill(
                GROUPS,
                _GROUP,
                vg_name=name,
                vg_uuid=f"uuid of {name}",
                vg_size=str(count * EXTENT),
                vg_free=str((count - used) * EXTENT),
                vg_extent_count=str(count),
                vg_free_count=str(count - used),
                lv_count=str(len(volumes)),
                pv_count=str(list(self.physical.values()).count(name)),
                vg_missing_pv_count=str(self.missing.get(name, 0)),
            )
            found += [row, row] if name in self.twice else [row]
        return found

    def _report_logical(self) -> list[Mapping[str, str]]:
        return [
            _fill(
                LOGICAL,
                _LOGICAL,
                lv_path=f"/dev/{volume.group}/{volume.name}",
                lv_name=volume.name,
                lv_full_name=f"{volume.group}/{volume.name}",
                vg_name=volume.group,
                lv_layout=volume.layout,
                lv_size=str(volume.size),
                lv_device_open="open" if volume.is_open else "",
            )
            for volume in self.logical
        ]


def _fill(columns: Sequence[str], known: Mapping[str, str], **values: str) -> Mapping[str, str]:
    return {**dict.fromkeys(columns, ""), **known, **values}


def make_config(*documents: str) -> Config:
    return load("---\n".join(documents))


def make_group(name: str = "pool", match: str = "disk.size > 0u") -> str:
    return (
        f"apiVersion: v1alpha1\nkind: LVMVolumeGroupConfig\nname: {name}\n"
        f"provisioning: {{volumeSelector: {{match: '{match}'}}}}\n"
    )


def make_volume(
    name: str = "data", *, group: str = "pool", size: str = "100MiB", more: str = "linear"
) -> str:
    return (
        f"apiVersion: v1alpha1\nkind: LVMLogicalVolumeConfig\nname: {name}\ntype: {more}\n"
        f"provisioning: {{volumeGroup: {group}, maxSize: {size}}}\n"
    )


def make_disk(
    name: str, content: str = "", *, readonly: bool = False, cdrom: bool = False
) -> tuple[str, block_pb2.DiskSpec, str]:
    disk = block_pb2.DiskSpec(
        dev_path=f"/dev/{name}", size=512 << 20, serial=name, readonly=readonly, cdrom=cdrom
    )
    return name, disk, content


type Found = tuple[list[Resource[block_pb2.DiscoveredVolumeSpec]], dict[str, block_pb2.DiskSpec]]


def make_machine(*disks: tuple[str, block_pb2.DiskSpec, str]) -> Found:
    """What udevd finds: a system disk, and these."""
    parts = [
        make_resource(
            kinds.DISCOVERED_VOLUME,
            f"vda{number}",
            block_pb2.DiscoveredVolumeSpec(
                dev_path=f"/dev/vda{number}",
                parent="vda",
                parent_dev_path="/dev/vda",
                partition_label=label,
                name=name,
            ),
        )
        for number, (label, name) in enumerate(
            (
                ("BIOS", ""),
                ("META", "talosmeta"),
                ("STATE", "xfs"),
                ("EPHEMERAL", ""),
                ("r-raw", ""),
                ("u-x", ""),
            ),
            1,
        )
    ]
    whole = [make_disk("vda", "gpt"), *disks]
    volumes = [
        make_resource(
            kinds.DISCOVERED_VOLUME,
            name,
            block_pb2.DiscoveredVolumeSpec(dev_path=f"/dev/{name}", name=content, size=spec.size),
        )
        for name, spec, content in whole
    ]
    return [*volumes, *parts], {name: spec for name, spec, _ in whole}
