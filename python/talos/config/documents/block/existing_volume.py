"""``ExistingVolumeConfig``: an existing volume that is only mounted."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.block.volume_schedule import ScrubConfig, TrimConfig
from talos.config.schema import Document, Section, setting
from talos.config.values import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSelector(Section):
    """Selector of volumes."""

    match: Expression | None = setting("expression that must be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeDiscoverySpec(Section):
    """How a volume is found."""

    volume_selector: VolumeSelector | None = setting("selector of volumes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingMountSpec(Section):
    """Mount options."""

    read_only: bool | None = setting("without writing")
    disable_access_time: bool | None = setting("do not record access times")
    secure: bool | None = setting("without programs, devices and set-uid (default: true)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVolumeConfig(Document):
    """An existing volume that is only mounted."""

    kind: ClassVar[str] = "ExistingVolumeConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the volume", default="")
    discovery: VolumeDiscoverySpec | None = setting("how the volume is found")
    mount: ExistingMountSpec | None = setting("mount options")
    trim: TrimConfig | None = setting("regular discard of unused blocks")
    scrub: ScrubConfig | None = setting("regular check")
