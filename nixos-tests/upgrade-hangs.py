"""Releases that hang before PID 1 runs and after: a watchdog resets the machine, the old version is back."""

from driver.releases import ENDLESS_SYSTEM
from driver.scenarios import UPGRADED, check_revert, install_release
from driver.world import World

ASSETS = ("kernel", "initramfs", "faulty-initramfs", "cmdline", "release-tool")
NODES = {"node": UPGRADED}
RESET = "it hung, and the watchdog reset the machine"


def test(world: World) -> None:
    node = world["node"]
    releases = install_release(world, node)

    world.section("an early init that hangs")
    check_revert(node, releases.make("v1.15.1", more=ENDLESS_SYSTEM), f"did not start: {RESET}")

    world.section("a PID 1 that hangs")
    image = releases.make("v1.15.2", asset="faulty-initramfs", arguments="fault=hangs")
    log = check_revert(node, image, f"ended before its self-check was done: {RESET}")
    assert "PID 1 hangs from now on" in log
