"""``VolumeConfig``: one of the system's own volumes."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.block.encryption import EncryptionSpec
from talos.config.documents.block.filesystem import XFSSpec
from talos.config.documents.block.provisioning import ProvisioningSpec
from talos.config.documents.block.volume_schedule import ScrubConfig, TrimConfig
from talos.config.schema import Applies, Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemVolumeFilesystemSpec(Section):
    """Its filesystem."""

    xfs: XFSSpec | None = setting("settings of XFS")


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSpec(Section):
    """Mount options."""

    secure: bool | None = setting("without devices and set-uid (default: true)")
    disable_access_time: bool | None = setting("do not record access times")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeConfig(Document):
    """One of the system's own volumes."""

    kind: ClassVar[str] = "VolumeConfig"
    named: ClassVar[bool] = True
    applies: ClassVar[Applies] = Applies.REBOOT

    name: str = setting("name of the system volume", default="")
    provisioning: ProvisioningSpec | None = setting("disks and size of the volume")
    filesystem: SystemVolumeFilesystemSpec | None = setting("its filesystem")
    encryption: EncryptionSpec | None = setting("encryption of the volume")
    mount: MountSpec | None = setting("mount options")
    trim: TrimConfig | None = setting("regular discard of unused blocks")
    scrub: ScrubConfig | None = setting("regular check")
