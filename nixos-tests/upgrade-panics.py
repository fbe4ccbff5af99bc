"""Releases whose kernel panics, and whose PID 1 ends: the old version is back and says why."""

from driver.scenarios import UPGRADED, check_revert, install_release
from driver.world import World

ASSETS = ("kernel", "initramfs", "faulty-initramfs", "cmdline", "release-tool")
NODES = {"node": UPGRADED}


def test(world: World) -> None:
    node = world["node"]
    releases = install_release(world, node)
    with node.console.expect("Kernel panic"):
        world.section("a kernel that panics before it starts a program")
        image = releases.make("v1.15.1", arguments="rdinit=/none root=/dev/none")
        log = check_revert(node, image, r"did not start: kernel panic: VFS: Unable to mount root fs")
        assert "talos.trial" in log, "the log is not that of the failed boot"

        world.section("a PID 1 that ends")
        image = releases.make("v1.15.3", asset="faulty-initramfs", arguments="fault=exits")
        check_revert(
            node, image, r"did not start: kernel panic: Attempted to kill init! exitcode=0x00000700(?!,)"
        )
