"""``UnattendedInstallConfig``: unattended installation to a disk."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Applies, Document, Section, setting
from talos.config.values import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallerSpec(Section):
    """What is installed."""

    image: str | None = setting("installer image")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSelectorSpec(Section):
    """Which disks."""

    match: Expression | None = setting("expression that must be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningSpec(Section):
    """How it comes to be."""

    disk_selector: DiskSelectorSpec | None = setting("which disks")
    wipe: bool | None = setting("wipe the disk first (default: true)")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnattendedInstallConfig(Document):
    """Unattended installation to a disk."""

    kind: ClassVar[str] = "UnattendedInstallConfig"
    applies: ClassVar[Applies] = Applies.INSTALL

    reboot: bool | None = setting("reboot when done")
    installer: InstallerSpec | None = setting("what is installed")
    provisioning: ProvisioningSpec | None = setting("how it comes to be")
