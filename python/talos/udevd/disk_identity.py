"""The identity of a disk: bus, model, serial number, world wide name; from data that the kernel has read.

No command is sent to a disk here. The kernel holds the disks' replies from their detection: pages of
SCSI's vital product data (VPD) in sysfs, the IDENTIFY data of ATA in page 0x89 or by an ioctl.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from talos.system.block.ata import IDENTIFY_BYTES
from talos.system.block.md import format_uuid
from talos.system.block.sysfs import SysDevice
from talos.udevd.escape import replace

type Identify = Callable[[str], bytes]
"""The 512 bytes of ATA's IDENTIFY by the name of a device's node; empty when it isn't ATA."""

# VPD page 0x89, "ATA Information" (SAT-4): IDENTIFY data begins at byte 60.
_PAGE_89_IDENTIFY = 60
_HAS_WWN = 1 << 8  # of words 84 and 87 (ACS-3)
_WWN_DIGITS = 16


class Designator(NamedTuple):
    """An entry of VPD page 0x83."""

    type: int
    is_binary: bool
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Empty where the disk has none. ``serial`` is the disk's own, ``name`` what by-id is made of."""

    bus: str = ""
    model: str = ""
    serial: str = ""
    revision: str = ""
    wwn: str = ""
    names: tuple[str, ...] = ()
    """Names for by-id, with their prefix."""


def identify_disk(disk: SysDevice, identify: Identify) -> Identity:
    """The identity of a whole disk."""
    name = disk.kernel_name
    if name.startswith("nvme"):
        return _identify_nvme(disk)
    if name.startswith("vd"):
        return _identify_virtio(disk)
    if name.startswith("mmcblk"):
        return _identify_mmc(disk)
    if name.startswith(("dm-", "md")):
        return _identify_mapped(disk)
    if name.startswith("pmem"):
        uuid = disk.attribute("uuid")
        return Identity(serial=uuid, names=(f"pmem-{replace(uuid)}",) if uuid else ())
    unit = disk.ancestor("scsi", "scsi_device")
    if unit is None:
        return Identity()
    return _identify_scsi(disk, unit, identify)


def _identify_nvme(disk: SysDevice) -> Identity:
    def read_attribute(name: str) -> str:
        return next((text for device in disk.with_parents if (text := device.attribute(name))), "")

    model, serial, wwid, nsid = (read_attribute(name) for name in ("model", "serial", "wwid", "nsid"))
    names = [f"nvme-{replace(wwid)}"] if wwid else []
    if model and serial:
        # The name without the namespace's number is every namespace's; the first to come has it.
        base = f"nvme-{replace(f'{model.strip()}_{serial.strip()}')}"
        names += [base, f"{base}_{nsid}"] if nsid else [base]
    return Identity(
        bus="nvme",
        model=model.strip(),
        serial=serial.strip(),
        revision=read_attribute("firmware_rev"),
        wwn=wwid,
        names=tuple(names),
    )


def _identify_virtio(disk: SysDevice) -> Identity:
    serial = disk.attribute("serial").strip()
    return Identity(bus="virtio", serial=serial, names=(f"virtio-{replace(serial)}",) if serial else ())


def _identify_mmc(disk: SysDevice) -> Identity:
    card = disk.ancestor("mmc")
    if card is None:
        return Identity()
    name, serial = card.attribute("name"), card.attribute("serial")
    by_id = (f"mmc-{replace(name)}_{replace(serial)}",) if name and serial else ()
    return Identity(bus="mmc", model=name, serial=serial, names=by_id)


def _identify_mapped(disk: SysDevice) -> Identity:
    """Device mapper and software RAID: names given by their configuration."""
    mapped = [(f"dm-{key}-", disk.attribute(f"dm/{key}")) for key in ("name", "uuid")]
    mapped += [("md-uuid-", format_uuid(disk.attribute("md/uuid")))]
    return Identity(names=tuple(prefix + replace(text) for prefix, text in mapped if text))


def _identify_scsi(disk: SysDevice, unit: SysDevice, identify: Identify) -> Identity:
    vendor, model = unit.attribute("vendor"), unit.attribute("model")
    usb = disk.ancestor("usb", "usb_device")
    is_ata = usb is None and bool(re.search(r"/ata\d+/", disk.path))
    data = _find_identify_data(disk, unit, identify) if is_ata else b""
    if data:
        return _parse_ata(data)
    found = _identify_by_pages(vendor, model, unit)
    if usb is not None:
        names = (*_make_usb_names(usb, unit, vendor, model),)
        serial = usb.attribute("serial").strip() or found.serial
        return Identity(bus="usb", model=model.strip(), serial=serial, wwn=found.wwn, names=names)
    return found


def _find_identify_data(disk: SysDevice, unit: SysDevice, identify: Identify) -> bytes:
    page = unit.binary("vpd_pg89")
    end = _PAGE_89_IDENTIFY + IDENTIFY_BYTES
    if len(page) >= end:
        return _swap_texts(page[_PAGE_89_IDENTIFY:end])
    data = identify(disk.uevent.get("DEVNAME", disk.kernel_name))
    return data if len(data) == IDENTIFY_BYTES else b""


def _swap_texts(data: bytes) -> bytes:
    """The disk stores texts with the bytes of each word swapped; the kernel's ioctl has them right."""
    swapped = bytearray(data)
    for first, last in ((10, 20), (23, 47)):
        for at in range(first * 2, last * 2, 2):
            swapped[at : at + 2] = swapped[at : at + 2][::-1]
    return bytes(swapped)


def _parse_ata(data: bytes) -> Identity:
    def text(first: int, last: int) -> str:
        return data[first * 2 : last * 2].decode("ascii", errors="replace").strip(" \0")

    def word(index: int) -> int:
        return int.from_bytes(data[index * 2 : index * 2 + 2], "little")

    serial, revision, model = text(10, 20), text(23, 27), text(27, 47)
    wwn = ""
    if any(word(index) & 0xC000 == 0x4000 and word(index) & _HAS_WWN for index in (84, 87)):
        wwn = "".join(f"{word(index):04x}" for index in range(108, 112))
    name = f"{replace(model)}_{replace(serial)}" if serial else replace(model)
    names = [f"ata-{name}"] if name else []
    if wwn.strip("0"):
        names.append(f"wwn-0x{wwn}")
    return Identity(
        bus="ata",
        model=model,
        serial=serial,
        revision=revision,
        wwn=f"0x{wwn}" if wwn.strip("0") else "",
        names=tuple(names),
    )


def _identify_by_pages(vendor: str, model: str, unit: SysDevice) -> Identity:
    names: list[str] = []
    wwn = ""
    designator = _choose(tuple(_parse_page_83(unit.binary("vpd_pg83"))))
    serial = _parse_page_80(unit.binary("vpd_pg80"))
    if designator is not None:
        text = designator.data.hex() if designator.is_binary else _decode(designator.data)
        head = f"{vendor:<8.8}{model:<16.16}" if designator.type == 0 else ""
        names.append(f"scsi-{designator.type:x}{replace(head + text)}")
        if designator.type == _NAA:
            wwn = f"0x{text}"
            names.append(f"wwn-0x{text}")
    elif serial:
        names.append(f"scsi-S{replace(f'{vendor:<8.8}{model:<16.16}{serial}')}")
    return Identity(
        bus="scsi",
        model=model.strip(),
        serial=serial,
        revision=unit.attribute("rev").strip(),
        wwn=wwn[: 2 + _WWN_DIGITS],
        names=tuple(names),
    )


_NAA = 3
_EUI64 = 2


def _rank(designator: Designator) -> int:
    """Which designator names a disk best: NAA registered extended, registered, EUI-64, others."""
    if designator.type == _NAA and designator.data:
        return {6: 0, 5: 1, 3: 3, 2: 4}.get(designator.data[0] >> 4, 5)
    return {_EUI64: 2, 8: 6, 1: 7, 0: 8}.get(designator.type, 9)


def _choose(designators: tuple[Designator, ...]) -> Designator | None:
    return min((found for found in designators if _rank(found) < 9), key=_rank, default=None)


def _parse_page_83(page: bytes) -> Iterator[Designator]:
    """The designators of the unit itself; those of ports and targets are left out (SPC-4 7.8.6)."""
    end = min(len(page), 4 + int.from_bytes(page[2:4]))
    at = 4
    while at + 4 <= end:
        code, kind, length = page[at] & 0x0F, page[at + 1], page[at + 3]
        data = page[at + 4 : at + 4 + length]
        if kind >> 4 & 0x03 == 0 and data:
            yield Designator(kind & 0x0F, code == 1, data)
        at += 4 + length


def _parse_page_80(page: bytes) -> str:
    return _decode(page[4 : 4 + int.from_bytes(page[2:4])])


def _decode(data: bytes) -> str:
    return data.decode("ascii", errors="replace").strip(" \0")


def _make_usb_names(usb: SysDevice, unit: SysDevice, vendor: str, model: str) -> Iterator[str]:
    parts = [replace(vendor) or usb.attribute("idVendor"), replace(model) or usb.attribute("idProduct")]
    serial = replace(usb.attribute("serial"))
    _, _, target, lun = unit.kernel_name.split(":")
    if serial:
        parts.append(serial)
    yield f"usb-{'_'.join(parts)}-{target}:{lun}"
