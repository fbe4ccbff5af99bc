"""``RAIDArrayConfig``: a software RAID array."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting
from talos.config.values import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class RAIDVolumeSelector(Section):
    """Selector of volumes."""

    match: Expression | None = setting("expression that must be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class RAIDProvisioningSpec(Section):
    """Provisioning."""

    volume_selector: RAIDVolumeSelector | None = setting("selector of volumes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RAIDArrayConfig(Document):
    """A software RAID array."""

    kind: ClassVar[str] = "RAIDArrayConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the array", default="")
    level: str | None = setting("RAID level", allowed=("raid1",))
    metadata: str | None = setting("form of the metadata (default: 1.0)", allowed=("1.0", "1.2"))
    provisioning: RAIDProvisioningSpec | None = setting("member devices")
