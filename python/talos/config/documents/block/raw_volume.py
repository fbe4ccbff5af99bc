"""``RawVolumeConfig``: a volume without a filesystem."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.block.encryption import EncryptionSpec
from talos.config.documents.block.provisioning import ProvisioningSpec
from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RawVolumeConfig(Document):
    """A volume without a filesystem."""

    kind: ClassVar[str] = "RawVolumeConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the volume", default="")
    provisioning: ProvisioningSpec | None = setting("disks and size of the volume")
    encryption: EncryptionSpec | None = setting("encryption of the volume")
