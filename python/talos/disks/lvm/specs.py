"""What the config wants of LVM: groups with their devices, and logical volumes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from talos.api.definitions import enums_pb2, storage_pb2
from talos.config.documents.storage.lvm_logical_volume import LVMLogicalVolumeConfig
from talos.config.documents.storage.lvm_volume_group import LVMVolumeGroupConfig
from talos.config.model import Config
from talos.disks.candidates import DeviceClaims, Disks, Volumes, find_candidates
from talos.system.block.lvm import MEMBER, LogicalVolume, is_name
from talos.system.errors import UserError

_NAME_HINT = "letters, digits, hyphens and underscores, no hyphen first"
_MIRRORED = frozenset({"raid1", "raid10"})
_TYPES = {
    "linear": enums_pb2.LVM_LOGICAL_VOLUME_TYPE_LINEAR,
    "raid0": enums_pb2.LVM_LOGICAL_VOLUME_TYPE_RAID0,
    "raid1": enums_pb2.LVM_LOGICAL_VOLUME_TYPE_RAID1,
    "raid10": enums_pb2.LVM_LOGICAL_VOLUME_TYPE_RAID10,
}


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
    candidates = find_candidates(volumes, disks)
    claims = DeviceClaims(candidates=candidates, disks=disks, what="volume group", member=MEMBER)
    for document in documents:
        name = document.name
        if not is_name(name):
            problems.append(_refuse_name(name, name, name))
            continue
        devices, reasons = claims.claim(document)
        if reasons:
            problems.append(Problem(id=name, group=name, message="; ".join(reasons)))
        yield WantedGroup(name=name, devices=tuple(devices))


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
