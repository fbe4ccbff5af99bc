"""Under Secure Boot, by systemd-boot: a default that comes up no more, and the other slot in its place.

The release comes up on trial, so that it is confirmed, and fails without the arguments of a trial: a machine
requires ``pti=on``.
"""

from pathlib import Path

from driver.owner import SIGNED, Owner, install_signed, make_uki
from driver.releases import FIRST
from driver.scenarios import (
    UPGRADE_TIMEOUT,
    VARIABLES,
    check_diagnostic,
    read_system,
    wait_for_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "uki-tools", "sign-efi", "sign-release")
NODES = {"node": SIGNED}
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
    install_signed(node, owner, releases)
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
