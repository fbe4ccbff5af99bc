"""Identity and place of disks, from the layouts of real machines."""

from pathlib import Path

import pytest
from tests.unit.udevd.fake_sysfs import FakeSysfs, add_ahci_disk, add_pci, make_page_83, make_page_89

from talos.system.block.sysfs import SysDevice
from talos.system.sizes import format_pretty_size
from talos.udevd.blocks import find_transport
from talos.udevd.bus_path import make_path_names
from talos.udevd.disk_identity import Identity, identify_disk
from talos.udevd.escape import encode, replace
from talos.udevd.specs import find_bus_path


@pytest.fixture
def fake(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path)


def identify(disk: SysDevice) -> Identity:
    return identify_disk(disk, lambda _: b"")


def add_scsi_disk(fake: FakeSysfs, host: str, unit: str = "2:0:0:1", **attributes: str | bytes) -> SysDevice:
    number = unit.split(":")[0]
    fake.add(f"{host}/host{number}", "scsi", {"DEVTYPE": "scsi_host"})
    target = f"{host}/host{number}/target{unit.rpartition(':')[0]}"
    fake.add(target, "scsi", {"DEVTYPE": "scsi_target"})
    fake.add(f"{target}/{unit}", "scsi", {"DEVTYPE": "scsi_device"}, **attributes)
    return fake.disk(f"{target}/{unit}/block/sdb", 16)


def test_virtio(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:00:05.0")
    fake.add(f"{card}/virtio2", "virtio", None)
    disk = fake.disk(f"{card}/virtio2/block/vda", 0, serial="root disk/1")
    assert identify(disk).names == ("virtio-root_disk_1",)
    assert make_path_names(disk, fake.sysfs) == ("pci-0000:00:05.0",)
    assert find_transport(disk, fake.sysfs) == "virtio"
    assert find_bus_path(disk) == "/pci0000:00/0000:00:05.0/virtio2"


def test_ata_from_its_page(fake: FakeSysfs) -> None:
    page = make_page_89("Samsung SSD 860 EVO 500GB", "S3Z1NB0K", "RVT01B6Q", 0x5002538E40A1B2C3)
    disk = add_ahci_disk(fake, vpd_pg89=page)
    found = identify(disk)
    assert (found.bus, found.model, found.serial, found.revision) == (
        "ata",
        "Samsung SSD 860 EVO 500GB",
        "S3Z1NB0K",
        "RVT01B6Q",
    )
    assert found.names == ("ata-Samsung_SSD_860_EVO_500GB_S3Z1NB0K", "wwn-0x5002538e40a1b2c3")
    assert make_path_names(disk, fake.sysfs) == ("pci-0000:00:1f.2-ata-1.0", "pci-0000:00:1f.2-ata-1")
    assert find_transport(disk, fake.sysfs) == "sata"
    assert find_bus_path(disk) == "/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0"


def test_ata_from_the_kernel(fake: FakeSysfs) -> None:
    disk = add_ahci_disk(fake, "sr0", target=1)
    data = bytearray(512)
    data[20:40], data[54:94] = b"QM00003".ljust(20), b"QEMU DVD-ROM".ljust(40)
    found = identify_disk(disk, lambda node: bytes(data) if node == "sr0" else b"")
    assert found.names == ("ata-QEMU_DVD-ROM_QM00003",)
    assert make_path_names(disk, fake.sysfs)[0] == "pci-0000:00:1f.2-ata-1.1"


def test_nvme(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:00:06.0")
    fake.add(
        f"{card}/nvme/nvme0", "nvme", None, model="QEMU NVMe Ctrl   ", serial="deadbeef  ", firmware_rev="8.2"
    )
    disk = fake.disk(f"{card}/nvme/nvme0/nvme0n1", 0, nsid="1", wwid="nvme.1b36-64-51-00000001")
    found = identify(disk)
    assert found.names == (
        "nvme-nvme.1b36-64-51-00000001",
        "nvme-QEMU_NVMe_Ctrl_deadbeef",
        "nvme-QEMU_NVMe_Ctrl_deadbeef_1",
    )
    assert (found.model, found.serial, found.revision) == ("QEMU NVMe Ctrl", "deadbeef", "8.2")
    assert make_path_names(disk, fake.sysfs) == ("pci-0000:00:06.0-nvme-1",)
    assert find_bus_path(disk) == "/pci0000:00/0000:00:06.0/nvme"


def test_nvme_of_several_controllers(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:00:06.0")
    fake.add(f"{card}/nvme/nvme0", "nvme", None)
    subsystem = "/devices/virtual/nvme-subsystem/nvme-subsys0"
    fake.add(subsystem, "nvme-subsystem", None, model="M", serial="S")
    (fake.root / subsystem[1:] / "nvme0").symlink_to(fake.root / card[1:] / "nvme/nvme0")
    disk = fake.disk(f"{subsystem}/nvme0n1", 0, nsid="1")
    assert identify(disk).names == ("nvme-M_S", "nvme-M_S_1")
    assert make_path_names(disk, fake.sysfs) == ("pci-0000:00:06.0-nvme-1",)


def test_scsi_names_by_the_best_designator(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:00:07.0")
    fake.add(f"{card}/virtio4", "virtio", None)
    page = make_page_83(
        (2, 0, b"drive-scsi0"),
        (1, 3, bytes.fromhex("5000c50015ea71ad")),
        (1, 0x13, bytes.fromhex("5000c50015ea71ac")),
    )
    disk = add_scsi_disk(fake, f"{card}/virtio4", vendor="QEMU    ", model="QEMU HARDDISK   ", vpd_pg83=page)
    assert identify(disk).names == ("scsi-35000c50015ea71ad", "wwn-0x5000c50015ea71ad")
    assert make_path_names(disk, fake.sysfs) == ("pci-0000:00:07.0-scsi-0:0:0:1",)


def test_scsi_with_a_vendors_name_only(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:00:07.0")
    page = make_page_83((2, 0, b"drive-scsi0"))
    disk = add_scsi_disk(fake, card, vendor="QEMU    ", model="QEMU HARDDISK   ", vpd_pg83=page)
    assert identify(disk).names == ("scsi-0QEMU_QEMU_HARDDISK_drive-scsi0",)


def test_scsi_with_a_serial_only(fake: FakeSysfs) -> None:
    disk = add_scsi_disk(
        fake,
        add_pci(fake, "0000:00:07.0"),
        vendor="VMware",
        model="Virtual disk",
        vpd_pg80=bytes([0, 0x80, 0, 4]) + b"0042",
    )
    assert identify(disk).serial == "0042"
    assert identify(disk).names == ("scsi-SVMware_Virtual_disk_0042",)


def test_broken_page_is_no_name(fake: FakeSysfs) -> None:
    disk = add_scsi_disk(
        fake, add_pci(fake, "0000:00:07.0"), vpd_pg83=b"\x00\x83\xff\xff\x01\x03\x00\xff\x50"
    )
    assert identify(disk).names in {(), ("scsi-350", "wwn-0x50")}


def test_usb_stick(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:00:14.0")
    fake.add(f"{card}/usb1", "usb", {"DEVTYPE": "usb_device"})
    fake.add(f"{card}/usb1/1-2", "usb", {"DEVTYPE": "usb_device"}, serial="4C530001")
    fake.add(f"{card}/usb1/1-2/1-2:1.0", "usb", {"DEVTYPE": "usb_interface"})
    disk = add_scsi_disk(
        fake, f"{card}/usb1/1-2/1-2:1.0", "6:0:0:0", vendor="SanDisk ", model="Cruzer Fit      "
    )
    assert identify(disk).names == ("usb-SanDisk_Cruzer_Fit_4C530001-0:0",)
    assert make_path_names(disk, fake.sysfs) == ("pci-0000:00:14.0-usb-0:2:1.0-scsi-0:0:0:0",)
    assert find_transport(disk, fake.sysfs) == "usb"


def test_sas(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:3b:00.0")
    fake.add(f"{card}/host0", "scsi", {"DEVTYPE": "scsi_host"})
    end = f"{card}/host0/port-0:3/end_device-0:3"
    for place in (f"{card}/host0/port-0:3", end):
        fake.add(place, "", None)
    fake.add(
        f"{end}/sas_device/end_device-0:3", "sas_device", None, sas_address="0x5000c500", phy_identifier="3"
    )
    fake.add(f"{card}/host0/port-0:3/sas_port/port-0:3", "sas_port", None, num_phys="1")
    fake.add(f"{end}/target0:0:3", "scsi", {"DEVTYPE": "scsi_target"})
    fake.add(f"{end}/target0:0:3/0:0:3:0", "scsi", {"DEVTYPE": "scsi_device"})
    disk = fake.disk(f"{end}/target0:0:3/0:0:3:0/block/sdc", 32)
    assert make_path_names(disk, fake.sysfs) == ("pci-0000:3b:00.0-sas-phy3-lun-0",)


def test_mmc_and_mapped(fake: FakeSysfs) -> None:
    fake.add(
        "/devices/platform/soc/fe340000.mmc/mmc_host/mmc0/mmc0:0001",
        "mmc",
        None,
        name="BJTD4R",
        serial="0x1f",
    )
    card = fake.disk("/devices/platform/soc/fe340000.mmc/mmc_host/mmc0/mmc0:0001/block/mmcblk0", 0)
    mapped = fake.disk("/devices/virtual/block/dm-0", 8, dm__name="luks2-STATE", dm__uuid="CRYPT-LUKS2-12")
    assert identify(card).names == ("mmc-BJTD4R_0x1f",)
    assert identify(mapped).names == ("dm-name-luks2-STATE", "dm-uuid-CRYPT-LUKS2-12")
    assert make_path_names(mapped, fake.sysfs) == ()


def test_escapes() -> None:
    assert encode("my disk/1") == "my\\x20disk\\x2f1"
    assert encode("Größe\\") == "Größe\\x5c"
    assert encode("..") == ".."
    assert replace("  a   b/c\t") == "a_b_c"


def test_sizes() -> None:
    sizes = (0, 512, 4096, 1474560, 10485760000, 12884901888, 999_950_000)
    assert [format_pretty_size(size) for size in sizes] == [
        "0 B",
        "512 B",
        "4.1 kB",
        "1.5 MB",
        "10 GB",
        "13 GB",
        "1000 MB",
    ]


def test_a_name_in_a_uevent_is_no_further_value(fake: FakeSysfs) -> None:
    name = "keyboard\u2028DEVNAME=sda\x85MAJOR=8"
    device = fake.add("/devices/hid/0003:1", "hid", {"HID_NAME": name, "DRIVER": "x"})
    assert device.uevent == {"HID_NAME": name, "DRIVER": "x"}
