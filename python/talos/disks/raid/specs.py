"""What the config wants of software RAID: arrays, with the devices that may be their members."""

from collections.abc import Sequence
from dataclasses import dataclass

from talos.api.definitions import block_pb2, enums_pb2, storage_pb2
from talos.config.documents.storage.raid_array import RAIDArrayConfig
from talos.config.model import Config
from talos.disks.candidates import Disks, Volumes, find_candidates, select
from talos.system.block.md import ARRAY, MEMBER
from talos.system.errors import UserError

LEVEL = "raid1"
_METADATA = {"1.0": enums_pb2.MD_METADATA10, "1.2": enums_pb2.MD_METADATA12}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedArray:
    """An array. ``devices`` are blank, or members of an array; ``problems`` are why others are not taken."""

    name: str
    metadata: str = "1.0"
    devices: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMember:
    """A device with the metadata of an array, whether that runs or not. ``name`` is the array's."""

    device: str
    uuid: str
    name: str


def make_specs(config: Config | None, volumes: Volumes, disks: Disks) -> tuple[WantedArray, ...]:
    """The arrays of a config, in its order; each device is in the first one that selects it."""
    documents = config.find_all(RAIDArrayConfig) if config else ()
    # An array is no member of another one.
    candidates = [spec for spec in find_candidates(volumes, disks) if not spec.dev_path.startswith(ARRAY)]
    taken: dict[str, str] = {}
    return tuple(_make_array(document, candidates, disks, taken) for document in documents)


def _make_array(
    document: RAIDArrayConfig,
    candidates: Sequence[block_pb2.DiscoveredVolumeSpec],
    disks: Disks,
    taken: dict[str, str],
) -> WantedArray:
    name, devices, problems = document.name, list[str](), list[str]()
    selector = document.provisioning.volume_selector if document.provisioning else None
    where = f"{document.kind} {name} provisioning.volumeSelector.match"
    try:
        selected = select(str((selector and selector.match) or ""), candidates, disks, where)
    except UserError as error:
        selected = []
        problems.append(str(error))
    for spec in selected:
        owner = taken.setdefault(spec.dev_path, name)
        if owner != name:
            problems.append(f'device "{spec.dev_path}" already claimed by RAID array "{owner}"')
        elif spec.name not in {"", MEMBER}:
            problems.append(refuse(spec.dev_path, f"holds {spec.name}: it is not written over"))
        else:
            devices.append(spec.dev_path)
    return WantedArray(
        name=name,
        metadata=document.metadata or "1.0",
        devices=tuple(devices),
        problems=tuple(problems),
    )


def refuse(device: str, reason: str) -> str:
    """Why a device is not taken, with the remedy."""
    return f"{device} {reason} (if it may be lost: talosctl wipe disk {device.removeprefix('/dev/')})"


def find_members(volumes: Volumes) -> tuple[FoundMember, ...]:
    """All devices with the metadata of an array, in the order of their names."""
    found = [
        FoundMember(device=volume.spec.dev_path, uuid=volume.spec.uuid, name=volume.spec.label)
        for volume in volumes
        if volume.spec.name == MEMBER
    ]
    return tuple(sorted(found, key=lambda member: member.device))


def make_spec(array: WantedArray) -> storage_pb2.MDArraySpecSpec:
    """The spec of an array."""
    return storage_pb2.MDArraySpecSpec(
        level=enums_pb2.MD_LEVEL_RAID1, metadata=_METADATA.get(array.metadata, enums_pb2.MD_METADATA10)
    )
