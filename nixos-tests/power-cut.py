"""Wherever the power is cut during an installation: the machine ends installed, or can be installed."""

from driver.node import Disk, Node
from driver.scenarios import apply_config, configure_if_needed, wait_for_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
NODES = {"node": Node(hands_over_kernel=True, disks={"system": Disk(size="8G")})}
POINTS = ("install: writing the partition table", "install: copying the system", "install: marking the disk")
"""Lines on the console after which the power is cut, in turn, on one and the same disk."""


def test(world: World) -> None:
    node = world["node"]
    cluster = world.cluster()
    for point in POINTS:
        world.section(f"the power is cut at: {point}")
        node.client.talosconfig = None
        node.start()
        node.wait_for_port()
        apply_config(node, cluster)
        node.wait_for_console_text(point)
        node.crash()

    world.section("nothing is cut, and the last cut may have come after the disk was marked as installed")
    node.start()
    configure_if_needed(node, cluster)
    wait_for_installed(node)
