"""``ExternalVolumeConfig``: a volume that the machine's host provides."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtiofsMountSpec(Section):
    """Settings of virtiofs."""

    tag: str | None = setting("tag of the share")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalMountSpec(Section):
    """Mount options."""

    read_only: bool | None = setting("without writing")
    disable_access_time: bool | None = setting("do not record access times")
    secure: bool | None = setting("without programs, devices and set-uid (default: true)")
    virtiofs: VirtiofsMountSpec | None = setting("settings of virtiofs")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalVolumeConfig(Document):
    """A volume that the machine's host provides."""

    kind: ClassVar[str] = "ExternalVolumeConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the volume", default="")
    filesystem_type: str | None = setting("kind of filesystem", allowed=("virtiofs",))
    mount: ExternalMountSpec | None = setting("mount options")
