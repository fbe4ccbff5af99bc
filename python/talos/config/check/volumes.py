"""Checks of documents about volumes, volume groups and arrays."""

import re
from collections.abc import Iterator

from talos.api.service_endpoint import parse_endpoint
from talos.config.check.expressions import check_expression
from talos.config.check.forms import check_name, check_present
from talos.config.check.note import Check, Note
from talos.config.documents.block.encryption import (
    MAX_PCR,
    MAX_SLOT,
    PERFORMANCE_OPTIONS,
    EncryptionKey,
    EncryptionSpec,
)
from talos.config.documents.block.existing_volume import ExistingVolumeConfig
from talos.config.documents.block.external_volume import ExternalVolumeConfig
from talos.config.documents.block.provisioning import ProvisioningSpec
from talos.config.documents.block.raw_volume import RawVolumeConfig
from talos.config.documents.block.swap_volume import SwapVolumeConfig
from talos.config.documents.block.user_volume import UserVolumeConfig
from talos.config.documents.block.volume import VolumeConfig
from talos.config.documents.block.volume_schedule import ScrubConfig
from talos.config.documents.block.zswap import ZswapConfig
from talos.config.documents.storage.lvm_logical_volume import LVMLogicalVolumeConfig
from talos.config.documents.storage.lvm_volume_group import LVMVolumeGroupConfig
from talos.config.documents.storage.raid_array import RAIDArrayConfig
from talos.config.documents.v1alpha1.encryption import EncryptionKey as OldKey
from talos.config.effective.volumes import has_partition
from talos.config.values import ByteSize, Size
from talos.system.block.layout import DEDICABLE

_SYSTEM_VOLUMES = ("STATE", "EPHEMERAL", "IMAGECACHE", *DEDICABLE)
_FIXED_VOLUMES = ("STATE",)
"""The installation sets their size and place."""
_MOUNTED_BY_THE_SYSTEM = ("STATE", "IMAGECACHE")
_LABEL = re.compile(r"[a-zA-Z0-9-]{1,34}", re.ASCII)
_LABEL_HINT = "1 to 34 letters, digits and hyphens"
_GROUP = re.compile(r"[a-zA-Z0-9_-]{1,63}", re.ASCII)
_ARRAY = re.compile(r"[a-zA-Z0-9_-]{1,32}", re.ASCII)
_LAYOUTS = ("linear", "raid0", "raid1", "raid10")
_MIN_SCRUB_PERIOD = 10  # seconds


def _volume(document: VolumeConfig) -> Iterator[Note]:
    name, at = document.name, Note.at(document)
    if name and name not in _SYSTEM_VOLUMES:
        hint = f"one of: {', '.join(_SYSTEM_VOLUMES)}; for others use UserVolumeConfig"
        yield at.below("name").find(f'"{name}" is no system volume', hint=hint)
    if name in _FIXED_VOLUMES and document.provisioning is not None:
        yield at.below("provisioning").find(f"is not for {name}")
    if name in _MOUNTED_BY_THE_SYSTEM and document.mount is not None:
        yield at.below("mount").find(f"is not for {name}")
    if name == "IMAGECACHE" and document.filesystem is not None:
        yield at.below("filesystem").find(f"is not for {name}")
    if name in DEDICABLE and not has_partition(document):
        for key, value in (("mount", document.mount), ("encryption", document.encryption)):
            if value is not None:
                text = f'{key} config for the "{name}" volume is only supported when it is provisioned'
                hint = "set provisioning.minSize, or leave it out"
                yield at.below(key).find(f"{text} onto a dedicated partition", hint=hint)
    yield from _check_provisioning(document.provisioning, at.below("provisioning"))
    yield from _check_encryption(document.encryption, at.below("encryption"), is_state=name == "STATE")
    yield from _check_scrub(document.scrub, at.below("scrub"))


def _user_volume(document: UserVolumeConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_name(document, _LABEL, _LABEL_HINT)
    filesystem, provisioning = document.filesystem, document.provisioning
    if document.volume_type == "directory":
        for key, value in (
            ("provisioning", provisioning),
            ("encryption", document.encryption),
            ("filesystem", filesystem),
            ("mount.disableAccessTime", document.mount and document.mount.disable_access_time),
        ):
            if value is not None:
                yield at.below(key).find("is not for volumeType: directory")
        return
    yield from _check_provisioning(provisioning, at.below("provisioning"), required=True)
    if document.volume_type == "disk":
        if provisioning and (provisioning.min_size or provisioning.max_size or provisioning.grow):
            hint = "leave out minSize, maxSize and grow"
            yield at.below("provisioning").find("a volume that is a disk has the disk's size", hint=hint)
    elif not provisioning or not (provisioning.min_size or provisioning.max_size):
        yield at.below("provisioning").find("needs minSize or maxSize")
    if filesystem and filesystem.type not in {None, "xfs"}:
        if filesystem.project_quota_support:
            yield at.below("filesystem.projectQuotaSupport").find("is for xfs")
        if filesystem.xfs is not None:
            yield at.below("filesystem.xfs").find("is for xfs")
    yield from _check_encryption(document.encryption, at.below("encryption"))
    yield from _check_scrub(document.scrub, at.below("scrub"))


def _raw_or_swap(document: RawVolumeConfig | SwapVolumeConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_name(document, _LABEL, _LABEL_HINT)
    provisioning = document.provisioning
    yield from _check_provisioning(provisioning, at.below("provisioning"), required=True)
    if not provisioning or not (provisioning.min_size or provisioning.max_size):
        yield at.below("provisioning").find("needs minSize or maxSize")
    yield from _check_encryption(document.encryption, at.below("encryption"))


def _existing_volume(document: ExistingVolumeConfig) -> Iterator[Note]:
    yield from check_name(document, _LABEL, _LABEL_HINT)
    selector = document.discovery.volume_selector if document.discovery else None
    at = Note.at(document, "discovery.volumeSelector.match")
    yield from check_expression(selector and selector.match, "VOLUME", at, required=True)
    yield from _check_scrub(document.scrub, Note.at(document, "scrub"))


def _external_volume(document: ExternalVolumeConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_name(document, _LABEL, _LABEL_HINT)
    if not document.filesystem_type:
        yield at.below("filesystemType").find("is missing", hint="virtiofs")
    virtiofs = document.mount.virtiofs if document.mount else None
    yield from check_present(virtiofs and virtiofs.tag, at.below("mount.virtiofs.tag"))


def _check_provisioning(
    provisioning: ProvisioningSpec | None, at: Note, *, required: bool = False
) -> Iterator[Note]:
    selector = provisioning.disk_selector if provisioning else None
    place = at.below("diskSelector.match")
    yield from check_expression(selector and selector.match, "DISK", place, required=required)
    if provisioning:
        yield from _check_sizes(provisioning.min_size, provisioning.max_size, at)


def _check_sizes(minimum: ByteSize | None, maximum: Size | None, at: Note) -> Iterator[Note]:
    if minimum and maximum and not maximum.is_relative and maximum.bytes < minimum.bytes:
        yield at.below("maxSize").find("is smaller than minSize")


def _check_encryption(
    encryption: EncryptionSpec | None, at: Note, *, is_state: bool = False
) -> Iterator[Note]:
    if encryption is None:
        return
    if not encryption.provider:
        yield at.below("provider").find("is missing", hint="luks2")
    if not encryption.keys:
        yield at.below("keys").find("is empty")
    for index, option in enumerate(encryption.options or ()):
        if option not in PERFORMANCE_OPTIONS:
            hint = f"one of: {', '.join(PERFORMANCE_OPTIONS)}"
            yield at.below(f"options[{index}]").find(f'"{option}" is not known', hint=hint)
    slots: set[int] = set()
    for index, key in enumerate(encryption.keys or ()):
        place = at.below(f"keys[{index}]")
        if key.slot in slots:
            yield place.below("slot").find(f"{key.slot} is used already")
        slots.add(key.slot)
        yield from check_slot(key.slot, place.below("slot"))
        yield from _check_key(key, place, is_state=is_state)


def _check_key(key: EncryptionKey, at: Note, *, is_state: bool) -> Iterator[Note]:
    if key.static is None and key.node_id is None and key.kms is None and key.tpm is None:
        yield at.find("has no kind of key", hint="static, nodeID, kms or tpm")
    if key.static is not None and not key.static.passphrase:
        yield at.below("static.passphrase").find("is missing")
    yield from check_key_kind(key, at)
    if is_state and key.lock_to_state:
        yield at.below("lockToState").find("is not for STATE")
    pcrs = (key.tpm and key.tpm.options and key.tpm.options.pcrs) or ()
    for index, pcr in enumerate(pcrs):
        if not 0 <= pcr <= MAX_PCR:
            place = at.below(f"tpm.options.pcrs[{index}]")
            yield place.find(f"{pcr} is out of range", hint=f"from 0 to {MAX_PCR}")


def check_key_kind(key: EncryptionKey | OldKey, at: Note) -> Iterator[Note]:
    """A service without an endpoint."""
    if key.kms is not None:
        place, endpoint = at.below("kms.endpoint"), key.kms.endpoint
        try:
            parse_endpoint(endpoint or "")
        except ValueError as error:
            text = f'"{endpoint}" can\'t be used: {error}' if endpoint else "is missing"
            yield place.find(text, hint="https://HOST or grpc://HOST:PORT")


def check_slot(slot: int, at: Note) -> Iterator[Note]:
    """The slot of a key."""
    if not 0 <= slot <= MAX_SLOT:
        yield at.find(f"{slot} is out of range", hint=f"from 0 to {MAX_SLOT}")


def _check_scrub(scrub: ScrubConfig | None, at: Note) -> Iterator[Note]:
    if scrub and scrub.interval and scrub.interval.seconds < _MIN_SCRUB_PERIOD:
        yield at.below("interval").find(f'"{scrub.interval}" is too short', hint="at least 10s")


def _logical_volume(document: LVMLogicalVolumeConfig) -> Iterator[Note]:
    at, kind = Note.at(document), document.type
    yield from check_name(document, _GROUP, "1 to 63 letters, digits, hyphens and underscores")
    if kind not in _LAYOUTS:
        yield at.below("type").find(f'"{kind or ""}" is not allowed', hint=f"one of: {', '.join(_LAYOUTS)}")
    if document.mirrors is not None and kind not in {"raid1", "raid10"}:
        yield at.below("mirrors").find("is for raid1 and raid10")
    if document.stripes is not None and kind not in {"raid0", "raid10"}:
        yield at.below("stripes").find("is for raid0 and raid10")
    elif document.stripes is not None and document.stripes < 2:
        yield at.below("stripes").find(f"{document.stripes} is too few", hint="at least 2")
    provisioning, place = document.provisioning, at.below("provisioning")
    yield from check_present(provisioning and provisioning.volume_group, place.below("volumeGroup"))
    maximum = provisioning.max_size if provisioning else None
    yield from check_present(maximum, place.below("maxSize"))
    if maximum and maximum.startswith("-"):
        yield place.below("maxSize").find(f'"{maximum}" is negative')
    elif provisioning:
        yield from _check_sizes(provisioning.min_size, maximum, place)


def _check_devices(document: LVMVolumeGroupConfig | RAIDArrayConfig) -> Iterator[Note]:
    """The expression that selects the devices of a group or an array."""
    selector = document.provisioning.volume_selector if document.provisioning else None
    at = Note.at(document, "provisioning.volumeSelector.match")
    yield from check_expression(selector and selector.match, "VOLUME", at, required=True)


def _volume_group(document: LVMVolumeGroupConfig) -> Iterator[Note]:
    yield from check_name(document, _GROUP, "1 to 63 letters, digits, hyphens and underscores")
    yield from _check_devices(document)


def _array(document: RAIDArrayConfig) -> Iterator[Note]:
    yield from check_name(document, _ARRAY, "1 to 32 letters, digits, hyphens and underscores")
    yield from check_present(document.level, Note.at(document, "level"), hint="raid1")
    yield from _check_devices(document)


def _zswap(document: ZswapConfig) -> Iterator[Note]:
    percent = document.max_pool_percent
    if percent is not None and not 0 <= percent <= 100:
        yield Note.at(document, "maxPoolPercent").find(f"{percent} is out of range", hint="from 0 to 100")


CHECKS: dict[str, Check] = {
    "ExistingVolumeConfig": _existing_volume,
    "ExternalVolumeConfig": _external_volume,
    "LVMLogicalVolumeConfig": _logical_volume,
    "LVMVolumeGroupConfig": _volume_group,
    "RAIDArrayConfig": _array,
    "RawVolumeConfig": _raw_or_swap,
    "SwapVolumeConfig": _raw_or_swap,
    "UserVolumeConfig": _user_volume,
    "VolumeConfig": _volume,
    "ZswapConfig": _zswap,
}
