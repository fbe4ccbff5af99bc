"""Predictable names from the layouts of real machines."""

from pathlib import Path

import pytest
from tests.unit.udevd.fake_sysfs import FakeSysfs, add_pci

from talos.system.block.sysfs import SysDevice
from talos.udevd.net_names import choose_name, find_names


@pytest.fixture
def fake(tmp_path: Path) -> FakeSysfs:
    return FakeSysfs(tmp_path)


def add_link(fake: FakeSysfs, parent: str, name: str = "eth0", **attributes: str) -> SysDevice:
    values = {"type": "1", "address": "52:54:00:12:34:56", "addr_assign_type": "0", "name_assign_type": "1"}
    device = fake.add(f"{parent}/net/{name}", "net", {"INTERFACE": name}, **(values | attributes))
    (fake.root / device.path[1:] / "device").symlink_to(fake.root / parent[1:])
    return device


def test_place_on_the_bus(fake: FakeSysfs) -> None:
    link = add_link(fake, add_pci(fake, "0000:00:02.0"))
    assert choose_name(link, fake.sysfs) == "enp0s2"
    assert find_names(link, fake.sysfs).all == ("enp0s2", "enx525400123456")


def test_virtio_counts_by_its_card(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:00:03.0")
    fake.add(f"{card}/virtio0", "virtio", None)
    assert choose_name(add_link(fake, f"{card}/virtio0"), fake.sysfs) == "enp0s3"


def test_slot_wins_over_place(fake: FakeSysfs) -> None:
    # i440fx in QEMU: every device is in a hotplug slot.
    link = add_link(fake, add_pci(fake, "0000:00:03.0"))
    slot = fake.root / "bus/pci/slots/3"
    slot.mkdir(parents=True)
    (slot / "address").write_text("0000:00:03\n")
    assert find_names(link, fake.sysfs).all[:2] == ("ens3", "enp0s3")
    assert choose_name(link, fake.sysfs) == "ens3"


def test_slot_of_the_root_port_is_not_the_cards(fake: FakeSysfs) -> None:
    bridge = add_pci(fake, "0000:00:1c.0", modalias="pci:v00008086d00009D10sv0sd0bc06sc04i00")
    add_pci(fake, "0000:00:1c.0/0000:05:00.0")
    slot = fake.root / "bus/pci/slots/8"
    slot.mkdir(parents=True)
    (slot / "address").write_text("0000:00:1c\n")
    assert choose_name(add_link(fake, f"{bridge}/0000:05:00.0"), fake.sysfs) == "enp5s0"


def test_slot_in_front_of_the_card(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:00:1c.0/0000:05:00.0", config=bytes(14) + b"\x80" + bytes(49))
    slot = fake.root / "bus/pci/slots/8"
    slot.mkdir(parents=True)
    (slot / "address").write_text("0000:05:00\n")
    assert choose_name(add_link(fake, card), fake.sysfs) == "ens8f0"


def test_onboard_index_wins(fake: FakeSysfs) -> None:
    smbios = add_link(fake, add_pci(fake, "0000:01:00.0", index="1"))
    acpi = add_link(fake, add_pci(fake, "0000:01:00.1", index="2", acpi_index="7"), "eth1")
    assert choose_name(smbios, fake.sysfs) == "eno1"
    assert choose_name(acpi, fake.sysfs) == "eno7"


def test_made_up_index_is_not_used(fake: FakeSysfs) -> None:
    link = add_link(fake, add_pci(fake, "0000:01:00.0", acpi_index="16777217"))
    assert choose_name(link, fake.sysfs) == "enp1s0"


def test_functions_domains_and_ports(fake: FakeSysfs) -> None:
    multi = bytes(14) + b"\x80" + bytes(49)
    first = add_link(fake, add_pci(fake, "0000:19:00.0", config=multi))
    second = add_link(fake, add_pci(fake, "0000:19:00.1", config=multi), "eth1")
    far = add_link(fake, "/devices/pci10000:00/" + "10000:e1:00.0", "eth2", dev_port="1")
    fake.add("/devices/pci10000:00/10000:e1:00.0", "pci", None)
    named = add_link(fake, add_pci(fake, "0000:1a:00.0"), "eth3", phys_port_name="p0")
    assert choose_name(first, fake.sysfs) == "enp25s0f0"
    assert choose_name(second, fake.sysfs) == "enp25s0f1"
    assert find_names(far, fake.sysfs).path == "enP65536p225s0d1"
    assert choose_name(named, fake.sysfs) == "enp26s0np0"


def test_name_that_is_too_long_gives_way(fake: FakeSysfs) -> None:
    fake.add("/devices/pci10000:00/10000:e1:00.0", "pci", None)
    link = add_link(fake, "/devices/pci10000:00/10000:e1:00.0", dev_port="1")
    assert choose_name(link, fake.sysfs) == ""


def test_usb(fake: FakeSysfs) -> None:
    card = add_pci(fake, "0000:00:14.0")
    fake.add(f"{card}/usb3", "usb", {"DEVTYPE": "usb_device"})
    fake.add(f"{card}/usb3/3-1", "usb", {"DEVTYPE": "usb_device"})
    fake.add(f"{card}/usb3/3-1/3-1.4", "usb", {"DEVTYPE": "usb_device"})
    fake.add(f"{card}/usb3/3-1/3-1.4/3-1.4:2.1", "usb", {"DEVTYPE": "usb_interface"})
    link = add_link(fake, f"{card}/usb3/3-1/3-1.4/3-1.4:2.1")
    assert choose_name(link, fake.sysfs) == "enp0s20u1u4c2i1"


def test_xen(fake: FakeSysfs) -> None:
    fake.add("/devices/vif-0", "xen", None)
    assert choose_name(add_link(fake, "/devices/vif-0"), fake.sysfs) == "enX0"


def test_random_address_names_nothing(fake: FakeSysfs) -> None:
    link = add_link(fake, add_pci(fake, "0000:00:02.0"), addr_assign_type="1")
    assert find_names(link, fake.sysfs).address == ""


@pytest.mark.parametrize("assigned", ["2", "3", "4"])
def test_names_that_were_chosen_stay(fake: FakeSysfs, assigned: str) -> None:
    link = add_link(fake, add_pci(fake, "0000:00:02.0"), name_assign_type=assigned)
    assert choose_name(link, fake.sysfs) == ""


def test_virtual_interfaces_keep_theirs(fake: FakeSysfs) -> None:
    link = fake.add("/devices/virtual/net/lo", "net", None, type="772", name_assign_type="2")
    bridge = fake.add(
        "/devices/virtual/net/br0", "net", {"DEVTYPE": "bridge"}, type="1", name_assign_type="3"
    )
    assert choose_name(link, fake.sysfs) == choose_name(bridge, fake.sysfs) == ""


def test_infiniband(fake: FakeSysfs) -> None:
    link = add_link(fake, add_pci(fake, "0000:03:00.0"), "ib0", type="32", address=":".join(["80"] * 20))
    assert find_names(link, fake.sysfs).all == ("ibp3s0",)
