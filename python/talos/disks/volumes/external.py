"""Folders that the host of a virtual machine shares with it: ``ExternalVolumeConfig``, by virtiofs."""

from collections.abc import Mapping

from talos.api.definitions import block_pb2, enums_pb2
from talos.config.documents.block.external_volume import ExternalVolumeConfig
from talos.config.model import Config
from talos.disks.volumes.specs import OBSTACLE, Volumes, set_options
from talos.disks.volumes.user import EXTERNAL_PREFIX, make_mounted
from talos.disks.volumes.volume import VolumePlace
from talos.system.block.blkid import Content, Partition

VIRTIOFS = "virtiofs"


def make_external_volumes(config: Config | None, *, is_container: bool) -> Volumes:
    """The specs of these volumes; a container has none."""
    found: dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]] = {}
    if config is None:
        return found
    for document in config.find_all(ExternalVolumeConfig):
        spec = make_mounted(enums_pb2.VOLUME_TYPE_EXTERNAL, document.name)
        spec.provisioning.filesystem_spec.type = enums_pb2.FILESYSTEM_TYPE_VIRTIOFS
        mount = document.mount
        set_options(
            spec.mount,
            secure=mount and mount.secure,
            disable_access_time=mount and mount.disable_access_time,
            read_only=mount and mount.read_only,
        )
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
