"""Block devices: its description in sysfs, what is on it, and the links that lead to it."""

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from talos.system.block.blkid import AmbiguousContentError, Content, Partition, probe
from talos.system.block.lvm import is_part
from talos.system.block.md import MEMBER
from talos.system.block.sysfs import SysDevice, Sysfs
from talos.udevd.bus_path import make_path_names
from talos.udevd.disk_identity import Identify, Identity, identify_disk
from talos.udevd.escape import encode
from talos.udevd.escape import replace as clean

type Prober = Callable[[str], Content]
"""What is on a device, by its node's name."""

SECTOR = 512
"""Bytes in which sysfs counts, whatever the disk's own sectors are."""
EMPTY = Content()
NO_IDENTITY = Identity()
UNREADABLE = Content(kind="other", name="unreadable")
AMBIGUOUS = Content(kind="other", name="ambiguous")
NO_MEDIUM = Content(kind="other", name="no medium")
_NEVER_PROBED = ("ram", "fd", "nbd", "zram")
_LINKED_USAGES = frozenset({"filesystem", "other"})
_DEVICE_MAPPER_PRIORITY = 10
"""A mapped device overrides the one it is mapped to: both hold the same filesystem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A disk or a partition. Sizes and places in bytes."""

    device: SysDevice
    node: str
    """Below ``/dev``; the device's id in the State."""
    numbers: tuple[int, int]
    size: int
    start: int = 0
    sector_size: int = SECTOR
    io_size: int = SECTOR
    readonly: bool = False
    rotational: bool = False
    cdrom: bool = False
    transport: str = ""
    content: Content = EMPTY
    identity: Identity = NO_IDENTITY
    path_names: tuple[str, ...] = ()
    secondaries: tuple[str, ...] = ()
    disk: "Block | None" = None
    """What a partition is on."""
    number: int = 0
    row: Partition | None = None
    """A partition's row in its disk's table."""

    @property
    def name(self) -> str:
        """As in ``/sys/class/block``."""
        return self.device.path.rpartition("/")[2]

    @property
    def is_usable(self) -> bool:
        """Whether there is anything to read or write: no empty drive, no unused loop device."""
        return self.size > 0 and self.content is not NO_MEDIUM


def probe_safely(dev: Path, node: str) -> Content:
    """What is on a device. Unknown instead of empty when uncertain, as empty devices may be overwritten."""
    try:
        return probe(dev / node)
    except AmbiguousContentError:
        return AMBIGUOUS
    except OSError as error:
        return NO_MEDIUM if error.errno in {errno.ENOMEDIUM, errno.ENXIO} else UNREADABLE


def read_block(
    device: SysDevice, sysfs: Sysfs, prober: Prober, identify: Identify, disk: Block | None = None
) -> Block:
    """Read a block device and probe its content; a partition's disk is given."""
    uevent = device.uevent
    node = uevent.get("DEVNAME", device.kernel_name)
    numbers = int(uevent.get("MAJOR", "0")), int(uevent.get("MINOR", "0"))
    size = device.number("size") * SECTOR
    is_probed = size > 0 and not node.startswith(_NEVER_PROBED)
    # Each half of a mirror holds what the whole one does, and seems to have its partitions.
    is_half = is_part(device.attribute("dm/name")) or (disk is not None and disk.content.name == MEMBER)
    content = prober(node) if is_probed and not is_half else Content()
    if disk is not None:
        number = device.number("partition")
        return Block(
            device=device,
            node=node,
            numbers=numbers,
            size=size,
            start=device.number("start") * SECTOR,
            sector_size=disk.sector_size,
            io_size=disk.io_size,
            readonly=device.attribute("ro") == "1",
            rotational=disk.rotational,
            transport=disk.transport,
            content=content,
            identity=disk.identity,
            path_names=disk.path_names,
            disk=disk,
            number=number,
            row=next((row for row in disk.content.partitions if row.number == number), None),
        )
    return Block(
        device=device,
        node=node,
        numbers=numbers,
        size=size,
        sector_size=device.number("queue/logical_block_size", SECTOR),
        io_size=_find_io_size(device),
        readonly=device.attribute("ro") == "1",
        rotational=device.attribute("queue/rotational") == "1",
        cdrom=node.startswith("sr"),
        transport=find_transport(device, sysfs),
        content=content,
        identity=identify_disk(device, identify),
        path_names=make_path_names(device, sysfs),
        secondaries=tuple(device.entries("slaves")),
    )


def _find_io_size(device: SysDevice) -> int:
    for name in ("optimal_io_size", "minimum_io_size", "physical_block_size"):
        size = device.number(f"queue/{name}")
        if size > 0 and size & (size - 1) == 0:
            return size
    return SECTOR


def find_transport(device: SysDevice, sysfs: Sysfs) -> str:
    """How a disk is attached: nvme, virtio, mmc, usb, sata, ata, sas, fc, iscsi or empty."""
    name = device.kernel_name
    for prefix, transport in (("nvme", "nvme"), ("vd", "virtio"), ("mmcblk", "mmc")):
        if name.startswith(prefix):
            return transport
    adapter = device.ancestor("scsi", "scsi_host")
    if adapter is None:
        return ""
    host = adapter.kernel_name
    for kind in ("sas", "fc", "iscsi"):
        if sysfs.member(f"{kind}_host", host) is not None:
            return kind
    if device.ancestor("usb") is not None:
        return "usb"
    scsi_host = sysfs.member("scsi_host", host)
    driver = scsi_host.attribute("proc_name") if scsi_host is not None else ""
    if driver in {"ahci", "sata"}:
        return "sata"
    if "ata" in driver:
        return "ata"
    return "virtio" if driver == "virtio_scsi" else ""


def name_array(block: Block, blocks: Mapping[str, "Block"]) -> Block:
    """An array with the name that the metadata of its members have: sysfs does not."""
    uuid = block.device.attribute("md/uuid")
    members = (blocks[name].content for name in block.secondaries if name in blocks)
    label = next((one.label for one in members if one.name == MEMBER and one.uuid == uuid), "")
    if not (uuid and label):
        return block
    identity = replace(block.identity, names=(f"md-name-{clean(label)}", *block.identity.names))
    return replace(block, identity=identity)


def make_links(block: Block) -> dict[str, int]:
    """The links to a device, relative to ``/dev``, with its priority for each."""
    if not block.is_usable or block.node.startswith(_NEVER_PROBED):
        return {}
    part = f"-part{block.number}" if block.disk is not None else ""
    links = [f"disk/by-id/{name}{part}" for name in block.identity.names]
    links += [f"disk/by-path/{name}{part}" for name in block.path_names]
    content, row = block.content, block.row
    if content.kind in _LINKED_USAGES:
        links += [f"disk/by-{key}/{encode(text)}" for key, text in _named(content.uuid, content.label)]
    if row is not None and block.disk is not None:
        if row.uuid:
            links.append(f"disk/by-partuuid/{encode(row.uuid)}")
        if row.label and block.disk.content.name == "gpt":
            links.append(f"disk/by-partlabel/{encode(row.label)}")
    if (sequence := block.device.attribute("diskseq")) or (
        block.disk is not None and (sequence := block.disk.device.attribute("diskseq"))
    ):
        links.append(f"disk/by-diskseq/{sequence}{part}")
    mapped = block.device.attribute("dm/name")
    if mapped:
        links.append(f"mapper/{encode(mapped)}")
    priority = _DEVICE_MAPPER_PRIORITY if block.node.startswith("dm-") else 0
    return dict.fromkeys(links, priority)


def _named(uuid: str, label: str) -> list[tuple[str, str]]:
    return [(key, text) for key, text in (("uuid", uuid), ("label", label)) if text]


def make_env(block: Block) -> Mapping[str, str]:
    """What rules find in ENV, by udev's names."""
    content, row, identity = block.content, block.row, block.identity
    found = {
        "ID_BUS": identity.bus,
        "ID_MODEL": identity.model,
        "ID_SERIAL_SHORT": identity.serial,
        "ID_REVISION": identity.revision,
        "ID_WWN": identity.wwn,
        "ID_PATH": block.path_names[0] if block.path_names else "",
        "ID_CDROM": "1" if block.cdrom else "",
        "ID_PART_TABLE_TYPE": content.name if content.kind == "partition-table" else "",
        "ID_PART_TABLE_UUID": content.uuid if content.kind == "partition-table" else "",
        "ID_FS_TYPE": content.name if content.kind in _LINKED_USAGES else "",
        "ID_FS_UUID": content.uuid if content.kind in _LINKED_USAGES else "",
        "ID_FS_LABEL": content.label if content.kind in _LINKED_USAGES else "",
        "ID_PART_ENTRY_NUMBER": str(block.number) if block.disk is not None else "",
        "ID_PART_ENTRY_UUID": row.uuid if row is not None else "",
        "ID_PART_ENTRY_NAME": row.label if row is not None else "",
        "ID_PART_ENTRY_TYPE": row.type_uuid if row is not None else "",
    }
    return {key: value for key, value in found.items() if value}
