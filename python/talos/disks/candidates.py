"""Devices that a volume group or an array may be made of: whole disks, and partitions of no other use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from talos.api.definitions import block_pb2
from talos.config.cel.compile import compile_expression
from talos.config.cel.environments import VOLUME
from talos.config.documents.storage.lvm_volume_group import LVMVolumeGroupConfig
from talos.config.documents.storage.raid_array import RAIDArrayConfig
from talos.disks.disk import MAPPED, make_wipe_hint
from talos.disks.installation import find_installed
from talos.disks.volumes.user import SWAP_PREFIX, USER_PREFIX
from talos.images.cache.places import VOLUME as IMAGE_CACHE
from talos.resource.resource import Resource
from talos.system.block.layout import DEDICABLE, SYSTEM
from talos.system.block.md import MEMBER
from talos.system.errors import UserError

_TABLES = frozenset({"dos", "gpt"})
_RESERVED = frozenset({*(area.label for area in SYSTEM), *DEDICABLE, IMAGE_CACHE})
_NO_DISKS = (MAPPED, "/dev/loop", "/dev/zram", "/dev/ram", "/dev/nbd")
"""Devices that are never taken: logical volumes, and what is no disk."""

type Volumes = Sequence[Resource[block_pb2.DiscoveredVolumeSpec]]
type Disks = Mapping[str, block_pb2.DiskSpec]
type Candidates = Sequence[block_pb2.DiscoveredVolumeSpec]


def find_candidates(volumes: Volumes, disks: Disks) -> Candidates:
    """Whole disks without partitions, and partitions but for those of the system and of other volumes.

    A member of an array that is not started yet seems to have the array's partitions: they are not its own.
    """
    specs = [volume.spec for volume in sorted(volumes, key=lambda volume: volume.id)]
    members = {spec.dev_path for spec in specs if spec.name == MEMBER}
    system = {path for path, _ in find_installed(specs)}
    partitioned = ({spec.parent_dev_path for spec in specs if spec.parent} | system) - members
    found: list[block_pb2.DiscoveredVolumeSpec] = []
    for spec in specs:
        disk = disks.get(spec.parent or _id(spec), block_pb2.DiskSpec())
        label = spec.partition_label
        is_reserved = (
            label.startswith((USER_PREFIX, SWAP_PREFIX))
            or (label in _RESERVED and spec.parent_dev_path in system)
            or spec.parent_dev_path in members
        )
        is_partitioned = spec.dev_path in partitioned or spec.name in _TABLES
        is_medium = disk.readonly or disk.cdrom
        if not (is_reserved or is_partitioned or is_medium or spec.dev_path.startswith(_NO_DISKS)):
            found.append(spec)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaims:
    """Gives each candidate to the first document that selects it. ``what`` is what the documents make."""

    candidates: Candidates
    disks: Disks
    what: str
    member: str
    """libblkid's name for a device that is one of such a thing already."""
    _owners: dict[str, str] = field(default_factory=dict[str, str])

    def claim(self, document: LVMVolumeGroupConfig | RAIDArrayConfig) -> tuple[list[str], list[str]]:
        """The devices of a document, blank or members, and why others are not taken."""
        selector = document.provisioning.volume_selector if document.provisioning else None
        where = f"{document.kind} {document.name} provisioning.volumeSelector.match"
        try:
            selected = _select(str((selector and selector.match) or ""), self.candidates, self.disks, where)
        except UserError as error:
            return [], [str(error)]
        devices: list[str] = []
        reasons: list[str] = []
        for spec in selected:
            device = spec.dev_path
            owner = self._owners.setdefault(device, document.name)
            if owner != document.name:
                reasons.append(f'device "{device}" already claimed by {self.what} "{owner}"')
            elif spec.name not in {"", self.member}:
                reasons.append(describe_refusal(device, f"holds {spec.name}: it is not written over"))
            else:
                devices.append(device)
        return devices, reasons


def describe_refusal(device: str, reason: str) -> str:
    """Why a device is not taken, with the remedy."""
    return f"{device} {reason} ({make_wipe_hint(device)})"


def _select(match: str, candidates: Candidates, disks: Disks, where: str) -> Candidates:
    """Those that an expression is true for; UserError when it can't be used."""
    expression = compile_expression(match, VOLUME, where=where)
    none = block_pb2.DiskSpec()
    return [
        spec
        for spec in candidates
        # Of a partition there is no disk: a selector of disks means whole ones.
        if expression.is_true({"volume": spec, "disk": none if spec.parent else disks.get(_id(spec), none)})
    ]


def _id(spec: block_pb2.DiscoveredVolumeSpec) -> str:
    return spec.dev_path.removeprefix("/dev/")
