"""What ETCD, CRI, KUBELET and LOG are: folders of EPHEMERAL or partitions, which they stay once in use."""

from collections.abc import Sequence

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.config.documents.block.volume import VolumeConfig
from talos.config.effective.volumes import find_dedicated
from talos.config.model import Config
from talos.resource.resource import Resource
from talos.system.block.layout import DEDICABLE, EPHEMERAL
from talos.system.errors import UserError

DIRECTORY, PARTITION = "directory", "partition"
_HINT = "leave it as it is, or reset the machine before it gets this config"


def check_backing(config: Config, volumes: Sequence[Resource[block_pb2.VolumeStatusSpec]]) -> None:
    """UserError when a config makes another thing of a volume that is in use."""
    ready = {volume.id: volume.spec for volume in volumes if volume.spec.phase == enums.VOLUME_PHASE_READY}
    if EPHEMERAL.label not in ready:
        return
    documents = {document.name for document in config.find_all(VolumeConfig)}
    dedicated = find_dedicated(config)
    for name in DEDICABLE:
        is_partition = name in ready and ready[name].type == enums.VOLUME_TYPE_PARTITION
        if is_partition and name not in documents:
            raise UserError(
                f'the "{name}" system volume is backed by a dedicated partition and its VolumeConfig cannot '
                "be removed; migrating a system volume off a dedicated partition is not supported",
                hint=_HINT,
            )
        if name in ready and is_partition != (name in dedicated):
            kinds = (PARTITION, DIRECTORY) if is_partition else (DIRECTORY, PARTITION)
            raise make_backing_error(name, *kinds)


def make_backing_error(volume: str, current: str, requested: str) -> UserError:
    """The error for a volume that would be another thing from now on."""
    return UserError(
        f'the backing of the "{volume}" system volume cannot be changed after creation '
        f"(current: {current}, requested: {requested}); migrating an existing system volume to or from a "
        "dedicated partition is not supported",
        where=f"{VolumeConfig.kind} {volume}",
        hint=_HINT,
    )
