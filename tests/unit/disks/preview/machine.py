"""A machine by its resources: the system on one disk, two others blank."""

from collections.abc import Mapping
from dataclasses import replace

from talos.api.definitions import block_pb2
from talos.config.model import Config
from talos.config.read.loader import load
from talos.disks.preview.copies import FoundDevices
from talos.resource import kinds
from talos.resource.resource import make_resource
from talos.system.block.layout import EPHEMERAL, GIB, INSTALLED, MIB, STATE, place_areas

MAIN = "version: v1alpha1\nmachine:\n    type: worker\n    token: abcdef.0123456789abcdef\n"
SIZE = 10 * GIB
ROOM = SIZE - 2 * MIB
"""Bytes for partitions on a disk."""


def make_config(*documents: str) -> Config:
    """A config with more documents."""
    return load("---\n".join((MAIN, *documents)))


def make_document(kind: str, name: str, body: str) -> str:
    """A document with the settings of ``provisioning``, in flow style."""
    return f"apiVersion: v1alpha1\nkind: {kind}\nname: {name}\nprovisioning: {body}\n"


def make_found(contents: Mapping[str, str] | None = None) -> FoundDevices:
    """Three disks of the same size; ``contents`` are what fills the others."""
    volumes = [block_pb2.DiscoveredVolumeSpec(dev_path="/dev/vda", name="gpt", size=SIZE)]
    areas = place_areas((*INSTALLED, STATE, replace(EPHEMERAL, size=2 * GIB)))
    for placed in areas:
        area = placed.area
        volumes.append(
            block_pb2.DiscoveredVolumeSpec(
                dev_path=f"/dev/vda{placed.number}",
                name="talosmeta" if area.label == "META" else area.filesystem,
                partition_label=area.label,
                partition_index=placed.number,
                offset=placed.start,
                size=area.size,
                parent="vda",
                parent_dev_path="/dev/vda",
            )
        )
    for name in ("vdb", "vdc"):
        content = (contents or {}).get(name, "")
        volumes.append(block_pb2.DiscoveredVolumeSpec(dev_path=f"/dev/{name}", name=content, size=SIZE))
    names = ("vda", "vdb", "vdc")
    return FoundDevices(
        volumes=[
            make_resource(kinds.DISCOVERED_VOLUME, spec.dev_path.removeprefix("/dev/"), spec)
            for spec in volumes
        ],
        disks={name: block_pb2.DiskSpec(dev_path=f"/dev/{name}", size=SIZE) for name in names},
    )


def add_partition(found: FoundDevices, disk: str, label: str, size: int) -> FoundDevices:
    """The machine with the first partition of a disk."""
    part = block_pb2.DiscoveredVolumeSpec(
        dev_path=f"/dev/{disk}1",
        name="xfs",
        partition_label=label,
        partition_index=1,
        offset=MIB,
        size=size,
        parent=disk,
        parent_dev_path=f"/dev/{disk}",
    )
    whole = block_pb2.DiscoveredVolumeSpec(dev_path=f"/dev/{disk}", name="gpt", size=SIZE)
    others = [volume for volume in found.volumes if volume.id != disk]
    new = [(disk, whole), (f"{disk}1", part)]
    made = [make_resource(kinds.DISCOVERED_VOLUME, name, spec) for name, spec in new]
    return replace(found, volumes=[*others, *made])
