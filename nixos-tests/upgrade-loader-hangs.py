"""A new GRUB that hangs on UEFI: the firmware's watchdog or a power cut ends it, the old one starts."""

from driver.machine import Machine
from driver.releases import Releases
from driver.scenarios import (
    INSTALLED_VERSION,
    UPGRADE_TIMEOUT,
    UPGRADED,
    check_diagnostic,
    read_version,
    start_installed,
    wait_for_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "boot-loader", "base-installed")
NODES = {"node": UPGRADED}
FIRMWARE_TIMEOUT = 300
"""Of its watchdog, from the start of a boot entry on (UEFI specification 2.10, section 3.1.2).

It counts its own ticks, of which a busy emulator loses some: 337 s at a load of 12.
"""


def boot_hanging_loader(node: Machine, releases: Releases, version: str, line: str) -> None:
    """Upgrade to a release whose GRUB hangs, and reboot until that has written its line."""
    boot = releases.make_boot_loader(f"hangs-{version}", line, hangs=True)
    image = releases.make(version, boot=boot)
    node.client.run("upgrade", "--image", image, "--no-reboot", seconds=UPGRADE_TIMEOUT)
    node.talosctl("reboot", "--wait=false")
    node.wait_for_reset()
    node.wait_for_console_text(line)


def check_reverted(node: Machine, version: str) -> None:
    node.wait_for_console_text(f"the upgrade to {version} was reverted", 300)
    wait_for_installed(node)
    assert read_version(node) == INSTALLED_VERSION
    check_diagnostic(node, f"{version} in slot B did not start: its boot loader did not come up")


def test(world: World) -> None:
    node = world["node"]
    releases = start_installed(world, node, firmware="uefi")

    world.section("the firmware's watchdog resets the machine")
    boot_hanging_loader(node, releases, "v1.15.1", "this boot loader hangs")
    node.wait_for_reset(3 * FIRMWARE_TIMEOUT)
    check_reverted(node, "v1.15.1")

    world.section("a power cut")
    boot_hanging_loader(node, releases, "v1.15.2", "this one hangs, too")
    node.crash()
    node.start()
    check_reverted(node, "v1.15.2")
