"""What the config wants of software RAID: arrays, with the devices that may be their members."""

from dataclasses import dataclass

from talos.api.definitions import enums_pb2, storage_pb2
from talos.config.documents.storage.raid_array import RAIDArrayConfig
from talos.config.model import Config
from talos.disks.candidates import DeviceClaims, Disks, Volumes, find_candidates
from talos.system.block.md import ARRAY, MEMBER

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
    claims = DeviceClaims(candidates=candidates, disks=disks, what="RAID array", member=MEMBER)
    return tuple(_make_array(document, claims) for document in documents)


def _make_array(document: RAIDArrayConfig, claims: DeviceClaims) -> WantedArray:
    devices, problems = claims.claim(document)
    return WantedArray(
        name=document.name,
        metadata=document.metadata or "1.0",
        devices=tuple(devices),
        problems=tuple(problems),
    )


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
