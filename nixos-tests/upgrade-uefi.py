"""An upgrade on UEFI, and the way back from a kernel that panics: the firmware keeps what it said."""

from dataclasses import replace
from functools import partial

from driver.boot_loader import age_boot_loader, read_boot_loader
from driver.node import Disk
from driver.scenarios import UPGRADE_SECONDS, UPGRADED, check_revert, install_release, read_version
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool")
NODES = {"node": replace(UPGRADED, disks={"system": Disk(size="8G", recorded=True)})}


def test(world: World) -> None:
    node = world["node"]
    disk = node.recorded["system"].path
    prepare = partial(age_boot_loader, world.programs, disk)
    releases = install_release(world, node, prepare, firmware="uefi")
    old = read_boot_loader(world.programs, disk)
    assert read_version(node) == "v1.15.0-alpha.0 in A"

    world.section("an upgrade")
    node.client.run("upgrade", "--image", releases.make("v1.15.1"), seconds=UPGRADE_SECONDS)
    assert read_version(node) == "v1.15.1 in B"
    assert old.efi == read_boot_loader(world.programs, disk).efi + b"an older release's"

    world.section("a kernel that panics before it starts a program")
    with node.console.expect("Kernel panic"):
        image = releases.make("v1.15.2", arguments="rdinit=/none root=/dev/none")
        log = check_revert(node, image, r"did not start: kernel panic: VFS: Unable to mount root fs")
    assert "Kernel panic" in log
