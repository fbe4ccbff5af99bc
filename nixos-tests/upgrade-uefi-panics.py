"""On UEFI: a GRUB that did not start is left out, with a kernel that panics before it starts a program."""

from driver.scenarios import (
    INSTALLED_VERSION,
    UPGRADE_TIMEOUT,
    UPGRADED,
    check_revert,
    read_boot_entries,
    read_version,
    start_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "boot-loader", "base-installed")
NODES = {"node": UPGRADED}


def test(world: World) -> None:
    node = world["node"]
    releases = start_installed(world, node, firmware="uefi")
    entries = read_boot_entries(node)
    assert entries, "the firmware has no boot entries"
    broken = releases.make_boot_loader("broken", "this boot loader returns an error")

    world.section("a GRUB that does not start")
    image = releases.make("v1.15.1", boot=broken)
    result = node.client.run("upgrade", "--image", image, check=False, seconds=UPGRADE_TIMEOUT)
    assert result.code, f"talosctl takes a reverted upgrade for a success: {result.stderr}"
    assert "its boot loader did not come up" in result.stderr.splitlines()[-1], result.stderr
    assert read_version(node) == INSTALLED_VERSION

    world.section("it is left out, with a kernel that panics")
    with node.console.expect("Kernel panic"):
        image = releases.make("v1.15.2", boot=broken, arguments="rdinit=/none root=/dev/none")
        log = check_revert(node, image, r"did not start: kernel panic: VFS: Unable to mount root fs")
    assert "Kernel panic" in log
    assert read_boot_entries(node) == entries, "the entries are not what they were"
