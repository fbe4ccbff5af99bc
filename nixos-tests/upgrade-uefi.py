"""An upgrade on UEFI, whose GRUB is tried once; and back from one that does not start."""

from dataclasses import replace
from functools import partial

from driver.boot_loader import change_boot_loader, read_boot_loader
from driver.node import Disk
from driver.scenarios import (
    INSTALLED_VERSION,
    UPGRADE_TIMEOUT,
    UPGRADED,
    check_diagnostic,
    read_boot_entries,
    read_version,
    start_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "boot-loader", "base-installed")
NODES = {"node": replace(UPGRADED, disks={"system": Disk(size="8G", raw=True)})}
STARTED = r'starting Boot[0-9A-F]{4} "Talos upgrade"'


def test(world: World) -> None:
    node = world["node"]
    disk = node.disk("system")
    prepare = partial(change_boot_loader, world.programs, disk)
    releases = start_installed(world, node, prepare, firmware="uefi")
    old = read_boot_loader(world.programs, disk)
    assert read_version(node) == INSTALLED_VERSION
    entries = read_boot_entries(node)
    assert entries, "the firmware has no boot entries"

    def check_entries() -> None:
        assert read_boot_entries(node) == entries, "the entries are not what they were"

    world.section("an upgrade, which begins with its GRUB")
    image = releases.make("v1.15.1", boot=world.assets.path("boot-loader"))
    result = node.client.run("upgrade", "--image", image, seconds=UPGRADE_TIMEOUT)
    assert "the release's boot loader is tried once, by the firmware's entry Boot" in result.stderr
    assert read_version(node) == "v1.15.1 in B"
    node.wait_for_console_text(STARTED)
    new = read_boot_loader(world.programs, disk)
    assert old.efi == new.efi + b"an older release's"
    node.wait_until("the entry is gone", check_entries)

    world.section("a GRUB that does not start: the old one starts the old version, which says why")
    broken = releases.make_boot_loader("broken", "this boot loader returns an error")
    image = releases.make("v1.15.2", boot=broken)
    result = node.client.run("upgrade", "--image", image, check=False, seconds=UPGRADE_TIMEOUT)
    assert result.code, f"talosctl takes a reverted upgrade for a success: {result.stderr}"
    reason = "v1.15.2 in slot A did not start: its boot loader did not come up"
    assert reason in result.stderr.splitlines()[-1], result.stderr
    check_diagnostic(node, reason)
    assert read_version(node) == "v1.15.1 in B"
    node.wait_for_console_text("this boot loader returns an error")
    node.wait_until("the entry is gone", check_entries)
    assert read_boot_loader(world.programs, disk) == new
