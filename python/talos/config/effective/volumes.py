"""Which of the system's volumes have a partition of their own by the config, and which volumes grow."""

from collections.abc import Mapping

from talos.config.documents.block.provisioning import ProvisioningSpec
from talos.config.documents.block.volume import VolumeConfig
from talos.config.model import Config
from talos.config.schema import Document
from talos.system.block.layout import DEDICABLE, EPHEMERAL


def has_partition(document: VolumeConfig) -> bool:
    """Whether a document of such a volume gives it a partition: by any setting of its provisioning."""
    wanted = document.provisioning
    if wanted is None:
        return False
    selector = wanted.disk_selector and wanted.disk_selector.match
    return bool(selector or wanted.min_size or wanted.max_size) or wanted.grow is not None


def may_grow(document: Document) -> bool:
    """Whether a document's volume grows at a boot: EPHEMERAL by default."""
    provisioning = getattr(document, "provisioning", None)
    wanted = provisioning.grow if isinstance(provisioning, ProvisioningSpec) else None
    is_ephemeral = isinstance(document, VolumeConfig) and document.name == EPHEMERAL.label
    return is_ephemeral if wanted is None else wanted


def find_dedicated(config: Config) -> Mapping[str, VolumeConfig]:
    """The documents of those that have one, by the names of the volumes."""
    documents = {document.name: document for document in config.find_all(VolumeConfig)}
    return {
        name: documents[name] for name in DEDICABLE if name in documents and has_partition(documents[name])
    }
