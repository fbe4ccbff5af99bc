"""Settings of filesystems."""

from dataclasses import dataclass

from talos.config.schema import Applies, Section, setting
from talos.config.values import ByteSize


@dataclass(frozen=True, slots=True, kw_only=True)
class XFSSpec(Section):
    """Settings of XFS."""

    min_allocation_group_size: ByteSize | None = setting(
        "smallest allocation group", applies=Applies.CREATION
    )
