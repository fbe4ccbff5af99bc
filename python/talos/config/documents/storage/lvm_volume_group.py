"""``LVMVolumeGroupConfig``: a volume group of LVM."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting
from talos.config.values import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class LVMVolumeSelectorSpec(Section):
    """Which volumes."""

    match: Expression | None = setting("expression that must be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningSpec(Section):
    """How it comes to be."""

    volume_selector: LVMVolumeSelectorSpec | None = setting("which volumes")


@dataclass(frozen=True, slots=True, kw_only=True)
class LVMVolumeGroupConfig(Document):
    """A volume group of LVM."""

    kind: ClassVar[str] = "LVMVolumeGroupConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the volume group", default="")
    provisioning: ProvisioningSpec | None = setting("how it comes to be")
