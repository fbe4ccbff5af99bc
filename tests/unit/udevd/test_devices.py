"""The table of devices: nodes, links, who has them next, rules, events of every kind."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.udevd.fake_sysfs import FakeSysfs, add_ahci_disk, add_pci

from talos.config.udev_rules import parse_rules
from talos.system.block.blkid import Content, Partition
from talos.system.block.sysfs import SysDevice
from talos.system.logging import Log
from talos.system.net.uevents import Uevent
from talos.udevd.devices import Devices, Ports


@dataclass
class World:
    """A machine: its sysfs, its /dev, what is on its disks."""

    fake: FakeSysfs
    dev: Path
    contents: dict[str, Content] = field(default_factory=dict[str, Content])
    renamed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    owners: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    logged: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.devices = Devices(
            Ports(
                sysfs=self.fake.sysfs,
                dev=self.dev,
                prober=lambda node: self.contents.get(node, Content()),
                identify=lambda _: b"",
                rename=self._rename,
                set_owner=self._own,
                log=Log(write=lambda line: self.logged.append(json.loads(line)["msg"])),
            )
        )

    def _rename(self, old: str, new: str) -> str:
        self.renamed.append((old, new))
        return ""

    def _own(self, path: Path, uid: int, gid: int) -> None:
        self.owners[path.name] = (uid, gid)

    def node(self, name: str) -> Path:
        path = self.dev / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return path

    def virtio_disk(self, name: str, number: int, **attributes: str | bytes) -> SysDevice:
        card = add_pci(self.fake, f"0000:00:{number:02x}.0")
        self.fake.add(f"{card}/virtio{number}", "virtio", None)
        self.node(name)
        return self.fake.disk(f"{card}/virtio{number}/block/{name}", number * 16, **attributes)

    def links(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.dev)): path.resolve().name
            for path in sorted(self.dev.rglob("*"))
            if path.is_symlink() and "by-diskseq" not in path.parts
        }


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "dev").mkdir()
    return World(FakeSysfs(tmp_path / "sys"), tmp_path / "dev")


GPT = Content(
    kind="partition-table",
    name="gpt",
    uuid="11111111-2222",
    partitions=(
        Partition(number=1, start=1 << 20, size=1 << 20, uuid="aaaa-1", label="EFI system"),
        Partition(number=2, start=2 << 20, size=1 << 20, uuid="aaaa-2", label="STATE"),
    ),
)
XFS = Content(kind="filesystem", name="xfs", uuid="0d1e-XFS", label="STATE")


def event(device: SysDevice, action: str, subsystem: str = "block") -> Uevent:
    return Uevent(action=action, path=device.path, subsystem=subsystem)


def test_coldplug(world: World) -> None:
    disk = world.virtio_disk("vda", 5, serial="root")
    for number in (1, 2):
        world.fake.partition(disk, number, 80 + number)
        world.node(f"vda{number}")
    world.contents |= {"vda": GPT, "vda2": XFS}
    world.devices.scan()
    assert world.links() == {
        "disk/by-id/virtio-root": "vda",
        "disk/by-id/virtio-root-part1": "vda1",
        "disk/by-id/virtio-root-part2": "vda2",
        "disk/by-label/STATE": "vda2",
        "disk/by-partlabel/EFI\\x20system": "vda1",
        "disk/by-partlabel/STATE": "vda2",
        "disk/by-partuuid/aaaa-1": "vda1",
        "disk/by-partuuid/aaaa-2": "vda2",
        "disk/by-path/pci-0000:00:05.0": "vda",
        "disk/by-path/pci-0000:00:05.0-part1": "vda1",
        "disk/by-path/pci-0000:00:05.0-part2": "vda2",
        "disk/by-uuid/0d1e-XFS": "vda2",
    }
    assert (world.dev / "disk/by-label/STATE").readlink() == Path("../../vda2")
    assert (world.dev / "vda").stat().st_mode & 0o777 == 0o660
    assert world.owners["vda"][1] == 6


def test_partitions_appear_and_go(world: World) -> None:
    disk = world.virtio_disk("vda", 5)
    world.devices.scan()
    assert set(world.devices.blocks) == {"vda"}
    part = world.fake.partition(disk, 2, 82)
    world.node("vda2")
    world.contents |= {"vda": GPT, "vda2": XFS}
    # The kernel's events after sfdisk: the table changed, then the partition.
    assert world.devices.handle([event(disk, "change"), event(part, "add")])
    assert world.devices.blocks["vda2"].row == GPT.partitions[1]
    assert "disk/by-partlabel/STATE" in world.links()
    world.fake.remove(part)
    world.contents["vda"] = Content()
    assert world.devices.handle([event(part, "remove"), event(disk, "change")])
    assert set(world.devices.blocks) == {"vda"}
    assert set(world.links()) == {"disk/by-path/pci-0000:00:05.0"}
    assert not (world.dev / "disk/by-partlabel").exists()


def test_partition_before_its_disk_and_disk_removed_with_all(world: World) -> None:
    disk = world.virtio_disk("vda", 5)
    part = world.fake.partition(disk, 1, 81)
    world.node("vda1")
    world.devices.handle([event(part, "add")])
    assert not world.devices.blocks
    world.devices.handle([event(disk, "add")])
    assert set(world.devices.blocks) == {"vda", "vda1"}
    world.fake.remove(part)
    world.fake.remove(disk)
    world.devices.handle([event(disk, "remove")])
    assert not world.devices.blocks
    assert not world.links()


def test_a_link_is_handed_over(world: World) -> None:
    first, second = world.virtio_disk("vda", 5), world.virtio_disk("vdb", 6)
    world.contents |= {"vda": XFS, "vdb": XFS}
    world.devices.scan()
    assert world.links()["disk/by-label/STATE"] == "vda"
    world.fake.remove(first)
    world.devices.handle([event(first, "remove")])
    assert world.links()["disk/by-label/STATE"] == "vdb"
    world.contents["vdb"] = Content()
    world.devices.handle([event(second, "change")])
    assert "disk/by-label/STATE" not in world.links()


def test_a_mapped_device_wins_its_links(world: World) -> None:
    world.virtio_disk("vda", 5)
    world.contents |= {"vda": XFS, "dm-0": XFS}
    world.devices.scan()
    mapped = world.fake.disk("/devices/virtual/block/dm-0", 300, dm__name="state")
    world.node("dm-0")
    world.devices.handle([event(mapped, "add")])
    assert world.links()["disk/by-label/STATE"] == "dm-0"
    assert world.links()["mapper/state"] == "dm-0"


def test_parts_of_a_logical_volume_are_not_looked_into(world: World) -> None:
    world.contents |= {"dm-0": XFS, "dm-1": XFS}
    world.devices.scan()
    for name, mapped in (("dm-0", "pool-data_rimage_0"), ("dm-1", "pool-data")):
        device = world.fake.disk(f"/devices/virtual/block/{name}", 300, dm__name=mapped)
        world.node(name)
        world.devices.handle([event(device, "add")])
    assert world.devices.blocks["dm-0"].content == Content()
    assert world.links()["disk/by-label/STATE"] == "dm-1"


def test_an_array_has_the_name_that_its_members_have(world: World) -> None:
    uuid = "6a3f1d52-9c04-4b7e-8f61-0d2a7c5e9b13"
    member = world.virtio_disk("vdb", 6)
    world.node("vdb1")
    world.fake.partition(member, 1, 97)
    world.contents |= {
        "vdb": Content(kind="other", name="linux_raid_member", uuid=uuid, label="talos:data"),
        "vdb1": XFS,
        "md0": GPT,
    }
    world.devices.scan()
    assert world.devices.blocks["vdb1"].content == Content(), "it is the array's"
    array = world.fake.disk("/devices/virtual/block/md0", 301, md__uuid=uuid, slaves__vdb="")
    world.node("md0")
    world.fake.partition(array, 1, 302, "md0p1")
    world.node("md0p1")
    world.devices.handle([event(array, "add")])
    links = world.links()
    assert links["disk/by-id/md-name-talos:data"] == "md0"
    assert links["disk/by-id/md-uuid-6a3f1d52:9c044b7e:8f610d2a:7c5e9b13"] == "md0"
    assert links["disk/by-id/md-name-talos:data-part1"] == "md0p1"


def test_resize_and_generations(world: World) -> None:
    disk = world.virtio_disk("vda", 5)
    world.devices.scan()
    assert world.devices.generations["vda"] == 1
    world.devices.handle([event(disk, "change")])
    assert world.devices.generations["vda"] == 1
    (world.fake.root / disk.path[1:] / "size").write_text("41943040\n")
    world.devices.handle([event(disk, "change")])
    assert world.devices.blocks["vda"].size == 41943040 * 512
    assert world.devices.generations["vda"] == 2


def test_lost_events_are_made_up_for(world: World) -> None:
    removed = world.virtio_disk("vda", 5, serial="a")
    world.devices.scan()
    world.fake.remove(removed)
    world.virtio_disk("vdb", 6, serial="b")
    world.devices.scan("change")
    assert set(world.devices.blocks) == {"vdb"}
    assert set(world.links()) == {"disk/by-id/virtio-b", "disk/by-path/pci-0000:00:06.0"}


def test_looking_again_sees_what_was_written(world: World) -> None:
    world.virtio_disk("vda", 5)
    world.devices.scan()
    world.contents["vda"] = XFS
    world.devices.rescan()
    assert world.devices.blocks["vda"].content == XFS


def test_many_disks_at_once(world: World) -> None:
    disks = [world.virtio_disk(f"vd{letter}", 8 + index) for index, letter in enumerate("abcdefghijklmnop")]
    world.devices.handle([event(disk, "add") for disk in disks])
    assert len(world.devices.blocks) == 16
    assert len(world.links()) == 16


def test_permissions_by_class(world: World) -> None:
    for index, (subsystem, name) in enumerate(
        [
            ("misc", "kvm"),
            ("tty", "tty1"),
            ("mem", "urandom"),
            ("drm", "dri/renderD128"),
            ("input", "input/event0"),
        ]
    ):
        path = f"/devices/virtual/{subsystem}/{name.rpartition('/')[2]}"
        world.fake.add(path, subsystem, {"MAJOR": "10", "MINOR": str(index), "DEVNAME": name})
        world.node(name)
    world.devices.scan()
    modes = {name: (world.dev / name).stat().st_mode & 0o777 for name in ("kvm", "tty1", "urandom")}
    assert modes == {"kvm": 0o666, "tty1": 0o620, "urandom": 0o666}
    assert (world.dev / "dri/renderD128").stat().st_mode & 0o777 == 0o666
    assert (world.dev / "input/event0").stat().st_mode & 0o777 == 0o660
    assert (world.owners["kvm"][1], world.owners["tty1"][1]) == (78, 5)


def test_rules_change_the_attributes_of_a_class(world: World) -> None:
    disk = add_ahci_disk(world.fake, queue__scheduler="mq-deadline")
    world.node("sda")
    world.devices.rules = parse_rules(
        [
            'SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ATTRS{vendor}=="ATA*", ENV{kind}="ata"',
            'ENV{kind}=="ata", OWNER="1000", GROUP="44", MODE="0640", SYMLINK+="by-%k/$attr{device/model}"',
            'KERNEL=="sd*", ATTR{queue/scheduler}="none"',
            'KERNEL!="sd*", MODE="0777"',
            'ATTR{missing}!="x", MODE="0777"',
            'SUBSYSTEMS=="usb", ATTRS{vendor}=="ATA*", MODE="0777"',
            'KERNEL=="sda", GROUP="nobodys-group"',
        ]
    )
    world.devices.scan("change")
    assert (world.dev / "sda").stat().st_mode & 0o777 == 0o640
    assert world.links()["by-sda/QEMU_HARDDISK"] == "sda"
    assert disk.attribute("queue/scheduler") == "none"
    assert any('there is no group "nobodys-group"' in text and "rules[6]" in text for text in world.logged)
    count = len(world.logged)
    world.devices.scan("change")
    assert len(world.logged) == count


def test_rules_for_devices_without_a_node(world: World) -> None:
    card = add_pci(world.fake, "0000:00:14.0", power__control="on")
    world.devices.rules = parse_rules(
        ['SUBSYSTEM=="pci", ATTR{vendor}=="0x8086", ATTR{power/control}="auto"']
    )
    world.devices.scan("change")
    assert world.fake.sysfs.device(card).attribute("power/control") == "auto"


def test_final_assignments(world: World) -> None:
    world.virtio_disk("vda", 5)
    world.devices.rules = parse_rules(['KERNEL=="vda", MODE:="0600"', 'KERNEL=="vda", MODE="0666"'])
    world.devices.scan()
    assert (world.dev / "vda").stat().st_mode & 0o777 == 0o600


def test_interfaces_are_renamed_once_they_are_there(world: World) -> None:
    card = add_pci(world.fake, "0000:00:02.0")
    link = world.fake.add(
        f"{card}/net/eth0", "net", None, type="1", name_assign_type="1", address="00:11:22:33:44:55"
    )
    (world.fake.root / link.path[1:] / "device").symlink_to(world.fake.root / card[1:])
    world.devices.handle([event(link, "add", "net")])
    assert world.renamed == [("eth0", "enp0s2")]
    assert world.devices.cards == {}
    world.devices.scan()
    assert set(world.devices.cards) == {"0000:00:02.0"}


def test_an_empty_drive_has_no_links(world: World) -> None:
    from talos.udevd.blocks import NO_MEDIUM

    add_ahci_disk(world.fake, "sr0")
    world.node("sr0")
    world.contents["sr0"] = NO_MEDIUM
    world.devices.scan()
    assert not world.devices.blocks["sr0"].is_usable
    assert not world.links()


def test_links_of_an_earlier_udevd_go(world: World) -> None:
    world.virtio_disk("vda", 5, serial="here")
    for name in ("by-id/virtio-gone", "by-id/virtio-here"):
        link = world.dev / "disk" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to("../../vdz")
    world.devices.scan()
    assert world.links()["disk/by-id/virtio-here"] == "vda"
    assert "disk/by-id/virtio-gone" not in world.links()


def test_a_node_is_never_replaced_by_a_link(world: World) -> None:
    world.virtio_disk("vda", 5)
    world.node("vdb")
    world.devices.rules = parse_rules(['KERNEL=="vda", SYMLINK+="vdb"'])
    world.devices.scan()
    assert not (world.dev / "vdb").is_symlink()


@pytest.mark.parametrize(
    "label",
    [".", "..", "x" * 255, "\u4e16" * 85, " " * 255],
    ids=["folder", "above", "long", "long letters", "long when encoded"],
)
def test_a_label_that_is_no_name_of_a_file_keeps_no_disk_from_being_found(world: World, label: str) -> None:
    for name, number in (("vda", 5), ("vdb", 6)):
        world.virtio_disk(name, number, serial=label)
    world.contents |= {"vda": Content(kind="filesystem", name="btrfs", label=label), "vdb": XFS}
    world.devices.scan()
    assert set(world.devices.blocks) == {"vda", "vdb"}
    links = world.links()
    assert links["disk/by-label/STATE"] == "vdb"
    assert [link for link, node in links.items() if node == "vda" and "by-label" in link] == []
    assert any("vda gets no link disk/by-label/" in line for line in world.logged)


def test_links_in_each_others_way_keep_no_disk_from_being_found(world: World) -> None:
    world.virtio_disk("vda", 5)
    world.virtio_disk("vdb", 6)
    world.devices.rules = parse_rules(['KERNEL=="vda", SYMLINK+="mine"', 'KERNEL=="vdb", SYMLINK+="mine/b"'])
    world.devices.scan()
    assert world.links()["mine"] == "vda"
    assert set(world.devices.blocks) == {"vda", "vdb"}
    assert any("/dev/mine/b can't be made for vdb" in line for line in world.logged)
