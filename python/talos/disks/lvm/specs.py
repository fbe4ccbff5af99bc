"""What the config wants of LVM: groups with their devices, and logical volumes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from talos.api.definitions import block_pb2, enums_pb2, storage_pb2
from talos.config.cel.compile import compile_expression
from talos.config.cel.environments import VOLUME
from talos.config.documents.storage.lvm_logical_volume import LVMLogicalVolumeConfig
from talos.config.documents.storage.lvm_volume_group import LVMVolumeGroupConfig
from talos.config.model import Config
from talos.disks.disk import MAPPED
from talos.disks.installation import find_installed
from talos.disks.volumes.user import SWAP_PREFIX, USER_PREFIX
from talos.images.cache.places import VOLUME as IMAGE_CACHE
from talos.resource.resource import Resource
from talos.system.block.layout import SYSTEM
from talos.system.block.lvm import MEMBER, LogicalVolume, is_name
from talos.system.errors import UserError

_TABLES = frozenset({"dos", "gpt"})
_RESERVED = frozenset({*(area.label for area in SYSTEM), IMAGE_CACHE})
_NO_DISKS = (MAPPED, "/dev/loop", "/dev/zram", "/dev/ram", "/dev/nbd")
"""Devices that are never physical volumes: logical volumes themselves, and what is no disk."""
_NAME_HINT = "letters, digits, hyphens and underscores, no hyphen first"
_MIRRORED = frozenset({"raid1", "raid10"})
_TYPES = {
    "linear": enums_pb2.LVM_LOGICAL_VOLUME_TYPE_LINEAR,
    "raid0": enums_pb2.LVM_LOGICAL_VOLUME_TYPE_RAID0,
    "raid1": enums_pb2.LVM_LOGICAL_VOLUME_TYPE_RAID1,
    "raid10": enums_pb2.LVM_LOGICAL_VOLUME_TYPE_RAID10,
}

type Volumes = Sequence[Resource[block_pb2.DiscoveredVolumeSpec]]
type Disks = Mapping[str, block_pb2.DiskSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why something can't be as configured; ``id`` is the group's or ``group/volume``."""

    id: str
    group: str
    message: str


def make_message(error: Exception, id: str) -> str:
    """An error as the message of a problem, whose id is not repeated in it."""
    if isinstance(error, UserError) and error.where == id:
        return str(UserError(error.message, hint=error.hint))
    return str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedGroup:
    """A volume group, and the devices that are to be its physical volumes."""

    name: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LvmSpecs:
    """All of LVM that a config has, in the config's order."""

    groups: tuple[WantedGroup, ...] = ()
    logical: tuple[LogicalVolume, ...] = ()
    problems: tuple[Problem, ...] = ()


def make_specs(config: Config | None, volumes: Volumes, disks: Disks) -> LvmSpecs:
    """The groups and volumes of a config, on devices that are found."""
    if config is None:
        return LvmSpecs()
    problems: list[Problem] = []
    groups = _make_groups(config.find_all(LVMVolumeGroupConfig), volumes, disks, problems)
    logical: list[LogicalVolume] = []
    for document in config.find_all(LVMLogicalVolumeConfig):
        volume = _make_logical(document)
        where, name = f"{volume.group}/{volume.name}", volume.name
        unfit = next((text for text in (volume.group, name) if not is_name(text)), None)
        if unfit is not None:
            problems.append(_refuse_name(where, volume.group, unfit))
        else:
            logical.append(volume)
    return LvmSpecs(groups=tuple(groups), logical=tuple(logical), problems=tuple(problems))


def _make_groups(
    documents: Sequence[LVMVolumeGroupConfig], volumes: Volumes, disks: Disks, problems: list[Problem]
) -> Iterator[WantedGroup]:
    """Each device is in the first group that selects it."""
    taken: dict[str, str] = {}
    candidates = _find_candidates(volumes, disks)
    for document in documents:
        name = document.name
        if not is_name(name):
            problems.append(_refuse_name(name, name, name))
            continue
        reasons: list[str] = []
        devices: list[str] = []
        try:
            selected = _select(document, candidates, disks)
        except UserError as error:
            selected = []
            reasons.append(str(error))
        for spec in selected:
            device = spec.dev_path
            owner = taken.setdefault(device, name)
            if owner != name:
                reasons.append(f'device "{device}" already claimed by volume group "{owner}"')
            elif spec.name not in {"", MEMBER}:
                reasons.append(
                    f"{device} holds {spec.name}: it is not written over "
                    f"(if it may be lost: talosctl wipe disk {device.removeprefix('/dev/')})"
                )
            else:
                devices.append(device)
        if reasons:
            problems.append(Problem(id=name, group=name, message="; ".join(reasons)))
        yield WantedGroup(name=name, devices=tuple(devices))


def _select(
    document: LVMVolumeGroupConfig, candidates: Sequence[block_pb2.DiscoveredVolumeSpec], disks: Disks
) -> list[block_pb2.DiscoveredVolumeSpec]:
    selector = document.provisioning.volume_selector if document.provisioning else None
    where = f"{document.kind} {document.name} provisioning.volumeSelector.match"
    expression = compile_expression(str((selector and selector.match) or ""), VOLUME, where=where)
    none = block_pb2.DiskSpec()
    return [
        spec
        for spec in candidates
        # Of a partition there is no disk: a selector of disks means whole ones.
        if expression.is_true({"volume": spec, "disk": none if spec.parent else disks.get(_id(spec), none)})
    ]


def _id(spec: block_pb2.DiscoveredVolumeSpec) -> str:
    return spec.dev_path.removeprefix("/dev/")


def _find_candidates(volumes: Volumes, disks: Disks) -> list[block_pb2.DiscoveredVolumeSpec]:
    """Whole disks without partitions, and partitions but for those of the system and of other volumes."""
    specs = [volume.spec for volume in sorted(volumes, key=lambda volume: volume.id)]
    system = {path for path, _ in find_installed(specs)}
    partitioned = {spec.parent_dev_path for spec in specs if spec.parent} | system
    found: list[block_pb2.DiscoveredVolumeSpec] = []
    for spec in specs:
        disk = disks.get(spec.parent or _id(spec), block_pb2.DiskSpec())
        label = spec.partition_label
        is_reserved = label.startswith((USER_PREFIX, SWAP_PREFIX)) or (
            label in _RESERVED and spec.parent_dev_path in system
        )
        is_partitioned = spec.dev_path in partitioned or spec.name in _TABLES
        is_medium = disk.readonly or disk.cdrom
        if not (is_reserved or is_partitioned or is_medium or spec.dev_path.startswith(_NO_DISKS)):
            found.append(spec)
    return found


def _make_logical(document: LVMLogicalVolumeConfig) -> LogicalVolume:
    provisioning = document.provisioning
    kind = document.type or "linear"
    size = provisioning.max_size if provisioning else None
    is_share = bool(size) and str(size).endswith("%")
    return LogicalVolume(
        group=(provisioning.volume_group if provisioning else None) or "",
        name=document.name,
        type=kind,
        mirrors=(document.mirrors or 1) if kind in _MIRRORED else 0,
        stripes=(document.stripes or 0) if kind in {"raid0", "raid10"} else 0,
        size=size.bytes if size and not is_share else 0,
        percent=int(float(size[:-1])) if size and is_share else 0,
    )


def _refuse_name(id: str, group: str, name: str) -> Problem:
    return Problem(id=id, group=group, message=f'"{name}" is no name for LVM: {_NAME_HINT}')


def make_physical_spec(group: WantedGroup, device: str) -> storage_pb2.LVMPhysicalVolumeSpecSpec:
    """The spec of a physical volume."""
    return storage_pb2.LVMPhysicalVolumeSpecSpec(device=device, vg_name=group.name)


def make_group_spec(group: WantedGroup) -> storage_pb2.LVMVolumeGroupSpecSpec:
    """The spec of a group."""
    return storage_pb2.LVMVolumeGroupSpecSpec(name=group.name, physical_volumes=group.devices)


def make_logical_spec(volume: LogicalVolume) -> storage_pb2.LVMLogicalVolumeSpecSpec:
    """The spec of a logical volume."""
    return storage_pb2.LVMLogicalVolumeSpecSpec(
        vg_name=volume.group,
        name=volume.name,
        type=_TYPES[volume.type],
        size_bytes=volume.size,
        size_percent_vg=volume.percent,
        mirrors=volume.mirrors,
        stripes=volume.stripes,
    )
