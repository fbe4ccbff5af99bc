"""``UnattendedInstallConfig``: unattended installation to a disk."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Applies, Document, Section, setting
from talos.config.values import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallerSpec(Section):
    """The installer."""

    image: str | None = setting("installer image")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSelectorSpec(Section):
    """Selector of disks."""

    match: Expression | None = setting("expression that must be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningSpec(Section):
    """Provisioning."""

    disk_selector: DiskSelectorSpec | None = setting("selector of disks")
    wipe: bool | None = setting("wipe the disk first (default: true)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnattendedInstallConfig(Document):
    """Unattended installation to a disk."""

    kind: ClassVar[str] = "UnattendedInstallConfig"
    applies: ClassVar[Applies] = Applies.INSTALL

    reboot: bool | None = setting("reboot after the installation")
    installer: InstallerSpec | None = setting("installer")
    provisioning: ProvisioningSpec | None = setting("disk to install to")
