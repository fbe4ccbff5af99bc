"""``UserVolumeConfig``: a volume for workloads, mounted below /var/mnt."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.block.encryption import EncryptionSpec
from talos.config.documents.block.filesystem import XFSSpec
from talos.config.documents.block.provisioning import ProvisioningSpec
from talos.config.documents.block.volume_schedule import ScrubConfig, TrimConfig
from talos.config.schema import Applies, Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSpec(Section):
    """Its filesystem."""

    type: str | None = setting(
        "kind of filesystem (default: xfs)", allowed=("ext4", "xfs", "btrfs"), applies=Applies.CREATION
    )
    project_quota_support: bool | None = setting("quotas for projects", applies=Applies.REBOOT)
    xfs: XFSSpec | None = setting("settings of XFS")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMountSpec(Section):
    """Mount options."""

    disable_access_time: bool | None = setting("do not record access times")
    secure: bool | None = setting("without programs, devices and set-uid (default: true)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserVolumeConfig(Document):
    """A volume for workloads, mounted below /var/mnt."""

    kind: ClassVar[str] = "UserVolumeConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the volume", default="")
    volume_type: str | None = setting(
        "type of the volume", allowed=("directory", "disk", "partition"), applies=Applies.CREATION
    )
    provisioning: ProvisioningSpec | None = setting("disks and size of the volume")
    filesystem: FilesystemSpec | None = setting("its filesystem")
    encryption: EncryptionSpec | None = setting("encryption of the volume")
    mount: UserMountSpec | None = setting("mount options")
    trim: TrimConfig | None = setting("regular discard of unused blocks")
    scrub: ScrubConfig | None = setting("regular check")
