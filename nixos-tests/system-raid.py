"""A system disk on RAID 1: installed, started from either half by BIOS and UEFI, rebuilt on a new disk.

GRUB starts one machine, systemd-boot the other.
"""

from dataclasses import replace

from driver.client import Document, at
from driver.disks import make_esp
from driver.grub import ENVIRONMENT, BootDisk
from driver.machine import Machine
from driver.node import Boot, Disk, Node
from driver.owner import IMAGES, LOADER
from driver.releases import Releases
from driver.scenarios import (
    UPGRADE_TIMEOUT,
    check_diagnostic,
    check_refused,
    install,
    read_version,
    set_mirrors,
    volumes,
    wait_for_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "uki")
SYNC_TIMEOUT = 900  # seconds
DISK = Disk(size="5G", raw=True)
"""Small, as a new one is filled whole."""
DISKS = {"one": DISK, "two": DISK, "three": DISK}
PAIR = {name: DISKS[name] for name in ("one", "two")}
STICK = {"stick": Disk(size="1M")}
"""The medium with the UKI, made below. Firmware tries it when nothing else can be started."""
NODES = {
    "node": Node(hands_over_kernel=True, watchdog=True, memory=2048, disks=DISKS),
    "uki": Node(boot="uefi", memory=2048, disks=PAIR | STICK),
}
LINK = "/dev/disk/by-id/md-name-talos:system"
ARRAY = """\
apiVersion: v1alpha1
kind: RAIDArrayConfig
name: system
level: raid1
provisioning: {volumeSelector: {match: 'disk.serial in ["one", "two", "three"]'}}
"""
TARGET = f"""\
apiVersion: v1alpha1
kind: UnattendedInstallConfig
provisioning: {{diskSelector: {{match: '"{LINK}" in disk.symlinks'}}}}
"""
PARTITIONS = ("META", "STATE", "EPHEMERAL")


def start_from(node: Machine, boot: Boot, *names: str) -> None:
    """By its firmware, with these disks, which it tries in this order."""
    disks = {name: DISKS[name] for name in names}
    node.start(node=replace(node.node, boot=boot, hands_over_kernel=False, disks=disks))
    wait_for_installed(node)


def check_array(node: Machine, members: int, status: str = "ready") -> Document:
    found = {at(each, "metadata.id"): each for each in node.get("mdarraystatus")}.get("system", {})
    assert at(found, "spec.status") == status, found
    assert str(at(found, "spec.members")).count("/dev/") == members, found
    assert int(str(at(found, "spec.raidDevices"))) == 2, found
    return found


def check_whole(node: Machine) -> None:
    found = check_array(node, 2)
    assert at(found, "spec.syncAction") == "idle", found
    assert not at(found, "spec.error"), found


def check_system(node: Machine) -> None:
    """All of the system is on the array, and no member of it may be taken for anything else."""
    [system] = node.get("systemdisk")
    assert str(at(system, "spec.devPath")).startswith("/dev/md"), system
    for name in PARTITIONS:
        assert str(at(volumes(node)[name], "spec.location")).startswith("/dev/md"), name
    check_refused(
        node,
        "reset",
        "--user-disks-to-wipe",
        "/dev/vda",
        "--wipe-mode",
        "user-disks",
        reason="the system disk",
    )


def check_halves(node: Machine, world: World, *names: str) -> None:
    """GRUB's environment is the same on all, and no start is without its confirmation."""
    found = {BootDisk(world.programs, node.disk(name)).read(ENVIRONMENT) for name in names}
    assert len(found) == 1, found
    [environment] = found
    assert environment is not None
    assert b"boot_count=\n" in environment, environment
    assert b"next_entry=\n" in environment, environment


def install_to_array(node: Machine, world: World) -> None:
    disks = {name: disk for name, disk in node.node.disks.items() if name != "three"}
    node.start(node=replace(node.node, disks=disks))
    install(node, world.cluster(), "---\n".join((ARRAY, TARGET)))


def replace_disks(node: Machine) -> None:
    """One by one, until none of those is there that the system was installed to."""
    start_from(node, "bios", "two", "three")
    node.wait_until("the new disk is filled", lambda: check_whole(node), SYNC_TIMEOUT)
    node.crash()
    start_from(node, "bios", "three")
    node.wait_until("it has one disk", lambda: check_array(node, 1))
    check_diagnostic(node, "1 of 2 members are missing")
    node.crash()
    start_from(node, "bios", "three", "two")
    node.wait_until("it has both disks again", lambda: check_whole(node), SYNC_TIMEOUT)


def upgrade(node: Machine, world: World, releases: Releases) -> None:
    """The machine is off then."""
    set_mirrors(node, releases)
    image = releases.make("v1.15.3")
    result = node.client.run("upgrade", "--image", image, seconds=UPGRADE_TIMEOUT)
    assert "v1.15.3 is the default" in result.stderr, result.stderr
    node.wait_for_reset()
    node.talosctl("shutdown", "--force", "--wait=false")
    node.wait_for_off()
    check_halves(node, world, "three", "two")


def check_grub(world: World) -> None:
    node = world["node"]
    releases = world.releases()
    node.initramfs = releases.initramfs()

    world.section(
        "the array is made of two blank disks, the system is installed to it, old firmware starts it"
    )
    install_to_array(node, world)
    node.crash()
    start_from(node, "bios", "one", "two")
    node.wait_until("it has both disks", lambda: check_whole(node), SYNC_TIMEOUT)
    check_system(node)
    node.crash()

    world.section("without the first disk, a new one is filled, and the system starts from that alone")
    replace_disks(node)

    world.section("an upgrade is on both halves, and GRUB's environment on one is made the other's")
    upgrade(node, world, releases)

    world.section("the first disk is back: its old system is started, with the newer data, and that is shown")
    start_from(node, "bios", "one", "two", "three")
    check_diagnostic(node, "slot B is the default, but slot A was started")
    check_diagnostic(node, "was a member of this array, which is complete without it")
    node.crash()

    world.section("UEFI starts it from the disk that was filled")
    start_from(node, "uefi", "three")
    assert read_version(node) == "v1.15.3 in B"
    node.crash()


def check_booted(node: Machine) -> None:
    [entry] = node.get("bootedentry")
    assert at(entry, "spec.bootedEntry") == "talos-a.efi", entry


def check_systemd_boot(world: World) -> None:
    node, uki = world["uki"], world.assets.path("uki")
    (image,) = uki.glob(f"{IMAGES}/*.efi")
    files = {name: (uki / name).read_bytes() for name in (LOADER, f"{IMAGES}/{image.name}")}
    make_esp(world.programs, world.folder, node.disk("stick"), files, partitioned=True)

    world.section("systemd-boot and a UKI are installed to an array, and start from both and from the second")
    install_to_array(node, world)
    wait_for_installed(node)
    node.wait_until("it has both disks", lambda: check_whole(node), SYNC_TIMEOUT)
    check_system(node)
    check_booted(node)
    node.crash()
    start_from(node, "uefi", "two")
    node.wait_until("it has one disk", lambda: check_array(node, 1))
    check_booted(node)


def test(world: World) -> None:
    check_grub(world)
    check_systemd_boot(world)
