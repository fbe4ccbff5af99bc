"""``SwapVolumeConfig``: a volume for swap."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.block.encryption import EncryptionSpec
from talos.config.documents.block.provisioning import ProvisioningSpec
from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapVolumeConfig(Document):
    """A volume for swap."""

    kind: ClassVar[str] = "SwapVolumeConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the volume", default="")
    provisioning: ProvisioningSpec | None = setting("disks and size of the volume")
    encryption: EncryptionSpec | None = setting("encryption of the volume")
