"""Under Secure Boot, by systemd-boot: a default that comes up no more, and the other slot in its place.

The release comes up on trial, so that it is confirmed, and fails without the arguments of a trial: a machine
requires ``pti=on``.
"""

from pathlib import Path

from driver.node import Disk, Node
from driver.owner import Owner, make_uki
from driver.releases import FIRST
from driver.scenarios import (
    UPGRADE_TIMEOUT,
    VARIABLES,
    check_diagnostic,
    install,
    read_system,
    set_mirrors,
    wait_for_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "uki-tools", "sign-efi", "sign-release")
DISKS = {"system": Disk(size="8G"), "stick": Disk(size="1M")}
"""Firmware tries them in this order; what is on the stick is made below."""
NODES = {"node": Node(boot="uefi", secure_boot=True, watchdog=True, memory=2048, disks=DISKS)}
NEW = "v1.15.1"
FAILURE = r"the boot failed, rebooting in .* does not run without pti=on"


def test(world: World) -> None:
    node, releases, owner = world["node"], world.releases(), Owner(world, "owner")
    owner.make_keys()

    def sign(archive: Path) -> Path:
        return owner.sign_release(archive, make_uki(world, NEW, releases.initramfs(NEW), confirmed="pti=off"))

    def check_variables() -> None:
        names = node.talosctl("list", VARIABLES).stdout
        assert "UnconfirmedStarts" not in names, names
        assert "LoaderEntryOneShot" not in names, names

    world.section("it installs itself from a stick, and is upgraded")
    owner.make_stick(make_uki(world, FIRST, releases.initramfs(FIRST)), node.disk("stick"))
    node.start()
    node.wait_for_console_text("Enrolling secure boot keys", 240)
    node.wait_for_reset()
    install(node, world.cluster())
    wait_for_installed(node)
    set_mirrors(node, releases)
    node.client.run("upgrade", "--image", releases.make(NEW, change=sign), seconds=UPGRADE_TIMEOUT)
    assert read_system(node) == f"{NEW} by talos-b.efi@trial"
    node.wait_for_reset()  # the upgrade's, which talosctl has seen through
    check_variables()

    world.section("the default fails in three starts, the last two with a watchdog")
    node.talosctl("reboot", "--wait=false")
    node.wait_for_reset()
    with node.console.expect("sequence initialize: did not end well"):
        for number in (1, 2, 3):
            node.wait_for_console_text(FAILURE, 300)
            if number > 1:
                node.wait_for_console_text("a watchdog guards this boot")
            node.wait_for_reset()

    world.section("the other slot is started, kept, and has the reason")
    node.wait_for_console_text(f"the upgrade to {NEW} was reverted", UPGRADE_TIMEOUT)
    wait_for_installed(node)
    assert read_system(node) == f"{FIRST} by talos-a.efi"
    check_diagnostic(node, "slot B did not come up in 3 starts: ")
    node.wait_until("the firmware has no count any more", check_variables)
    node.crash()
    node.start()
    wait_for_installed(node)
    assert read_system(node) == f"{FIRST} by talos-a.efi"
