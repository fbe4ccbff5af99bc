"""Devices as resources: the API's specs made of udevd's data."""

from collections.abc import Sequence

from talos.api.definitions.block_pb2 import DeviceSpec, DiscoveredVolumeSpec, DiskSpec
from talos.api.definitions.hardware_pb2 import PCIDeviceSpec
from talos.system.block.sysfs import SysDevice
from talos.system.sizes import format_pretty_size
from talos.udevd.blocks import Block
from talos.udevd.pci_names import find_names


def make_device(block: Block, generation: int) -> DeviceSpec:
    """A block device."""
    major, minor = block.numbers
    return DeviceSpec(
        type="partition" if block.disk is not None else "disk",
        major=major,
        minor=minor,
        partition_name=block.row.label if block.row is not None else "",
        partition_number=block.number,
        generation=generation,
        device_path=block.device.path,
        parent=block.disk.name if block.disk is not None else "",
        secondaries=block.secondaries,
    )


def make_disk(block: Block, links: Sequence[str]) -> DiskSpec:
    """A whole disk; ``links`` with their whole path."""
    unit = block.device
    identity = block.identity
    return DiskSpec(
        dev_path=f"/dev/{block.node}",
        size=block.size,
        pretty_size=format_pretty_size(block.size),
        io_size=block.io_size,
        sector_size=block.sector_size,
        readonly=block.readonly,
        cdrom=block.cdrom,
        model=identity.model or unit.attribute("device/model").strip(),
        serial=identity.serial,
        modalias=unit.attribute("device/modalias"),
        wwid=(unit.attribute("wwid") or unit.attribute("device/wwid")).strip(),
        uuid=_find_uuid(block),
        bus_path=find_bus_path(block.device),
        sub_system="/sys/class/block",
        transport=block.transport,
        rotational=block.rotational,
        secondary_disks=block.secondaries,
        symlinks=links,
        firmware_version=identity.revision,
    )


def _find_uuid(block: Block) -> str:
    uuid = block.device.attribute("uuid")
    return uuid if uuid.strip("0-") else ""


def find_bus_path(device: SysDevice) -> str:
    """Where a disk is: its path without ``/devices`` and without its own two last folders."""
    parts = device.path.removeprefix("/devices").split("/")
    return "/".join(parts[:-2])


def make_volume(block: Block) -> DiscoveredVolumeSpec:
    """What is on a device."""
    content, row, disk = block.content, block.row, block.disk
    return DiscoveredVolumeSpec(
        type="partition" if disk is not None else "disk",
        dev_path=f"/dev/{block.node}",
        device_path=block.device.path,
        parent=disk.name if disk is not None else "",
        parent_dev_path=f"/dev/{disk.node}" if disk is not None else "",
        size=block.size,
        pretty_size=format_pretty_size(block.size),
        sector_size=block.sector_size,
        io_size=block.io_size,
        name=content.name,
        uuid=content.uuid,
        label=content.label,
        block_size=content.block_size,
        filesystem_block_size=content.block_size if content.kind == "filesystem" else 0,
        probed_size=content.filesystem_size or (content.size if content.kind else 0),
        offset=block.start,
        partition_index=block.number,
        partition_uuid=row.uuid if row is not None else "",
        partition_type=row.type_uuid if row is not None else "",
        partition_label=row.label if row is not None else "",
    )


def make_card(card: SysDevice) -> PCIDeviceSpec:
    """A PCI device."""
    number = card.number("class")
    kind, subclass = number >> 16, number >> 8 & 0xFF
    names = find_names(card.number("vendor"), card.number("device"), kind, subclass)
    return PCIDeviceSpec(
        vendor=names.vendor,
        product=names.product,
        class_id=f"0x{kind:02x}",
        subclass_id=f"0x{subclass:02x}",
        vendor_id=card.attribute("vendor"),
        product_id=card.attribute("device"),
        driver=card.driver,
        **{"class": names.kind, "subclass": names.subclass},
    )
