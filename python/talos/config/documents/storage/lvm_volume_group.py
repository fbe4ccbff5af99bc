"""``LVMVolumeGroupConfig``: a volume group of LVM."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting
from talos.config.values import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class LVMVolumeSelectorSpec(Section):
    """Selector of volumes."""

    match: Expression | None = setting("expression that must be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningSpec(Section):
    """Provisioning."""

    volume_selector: LVMVolumeSelectorSpec | None = setting("selector of volumes")


@dataclass(frozen=True, slots=True, kw_only=True)
class LVMVolumeGroupConfig(Document):
    """A volume group of LVM."""

    kind: ClassVar[str] = "LVMVolumeGroupConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the volume group", default="")
    provisioning: ProvisioningSpec | None = setting("physical volumes of the group")
