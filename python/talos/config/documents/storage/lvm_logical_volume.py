"""``LVMLogicalVolumeConfig``: a logical volume of LVM."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import UINT32, Document, Section, setting
from talos.config.values import ByteSize, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class LVMLogicalVolumeProvisioningSpec(Section):
    """Provisioning."""

    volume_group: str | None = setting("its volume group")
    min_size: ByteSize | None = setting("at least this large")
    max_size: Size | None = setting("at most this large")


@dataclass(frozen=True, slots=True, kw_only=True)
class LVMLogicalVolumeConfig(Document):
    """A logical volume of LVM."""

    kind: ClassVar[str] = "LVMLogicalVolumeConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the logical volume", default="")
    type: str | None = setting("layout of the volume")
    mirrors: int | None = setting("copies (default: 1)", bounds=UINT32)
    stripes: int | None = setting("disks to spread over (default: all physical volumes)", bounds=UINT32)
    provisioning: LVMLogicalVolumeProvisioningSpec | None = setting("volume group and size")
