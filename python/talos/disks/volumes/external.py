"""Folders that the host of a virtual machine shares with it: ``ExternalVolumeConfig``, by virtiofs."""

from collections.abc import Mapping

from talos.api.definitions import block_pb2, enums_pb2
from talos.config.documents.block.external_volume import ExternalVolumeConfig
from talos.config.model import Config
from talos.disks.volumes.settle import VolumePlace
from talos.disks.volumes.specs import OBSTACLE, USER_WAVE, Volumes, set_access_times, set_read_only
from talos.disks.volumes.user import EXTERNAL_PREFIX, USER_VOLUMES
from talos.system.block.blkid import Content, Partition

VIRTIOFS = "virtiofs"


def make_external_volumes(config: Config | None, *, is_container: bool) -> Volumes:
    """The specs of these volumes; a container has none."""
    found: dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]] = {}
    if config is None:
        return found
    for document in config.find_all(ExternalVolumeConfig):
        spec = block_pb2.VolumeConfigSpec(type=enums_pb2.VOLUME_TYPE_EXTERNAL)
        spec.provisioning.wave = USER_WAVE
        spec.provisioning.filesystem_spec.type = enums_pb2.FILESYSTEM_TYPE_VIRTIOFS
        spec.mount.target_path = document.name
        spec.mount.parent_id = USER_VOLUMES
        spec.mount.file_mode = 0o755
        mount = document.mount
        spec.mount.secure = spec.mount.no_exec = not mount or mount.secure is not False
        set_access_times(spec.mount, disable=mount and mount.disable_access_time)
        set_read_only(spec.mount, read_only=mount and mount.read_only)
        virtiofs = mount.virtiofs if mount else None
        spec.provisioning.disk_selector.external = (virtiofs and virtiofs.tag) or ""
        annotations = {OBSTACLE: "a container has no virtual devices of its own"} if is_container else {}
        found[f"{EXTERNAL_PREFIX}{document.name}"] = (spec, annotations)
    return found


def make_external_place(spec: block_pb2.VolumeConfigSpec) -> VolumePlace:
    """What is mounted: not a device, but the tag that the host has given the folder."""
    return VolumePlace(
        disk="",
        device=spec.provisioning.disk_selector.external,
        partition=Partition(number=0, start=0, size=0),
        content=Content(kind="filesystem", name=VIRTIOFS),
    )
