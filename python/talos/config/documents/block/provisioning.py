"""Where volumes come from."""

from dataclasses import dataclass

from talos.config.schema import Applies, Section, setting
from talos.config.values import ByteSize, Expression, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSelector(Section):
    """Which disks may be used."""

    match: Expression | None = setting("expression that must be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningSpec(Section):
    """How a volume is made, and grown at a boot."""

    disk_selector: DiskSelector | None = setting("selector of disks", applies=Applies.CREATION)
    grow: bool | None = setting("grow when the disk has free space", applies=Applies.REBOOT)
    min_size: ByteSize | None = setting("at least this large", applies=Applies.CREATION)
    max_size: Size | None = setting(
        "at most this large; one that is there grows to it with grow", applies=Applies.GROWTH
    )
