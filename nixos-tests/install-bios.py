"""From the ISO on old firmware through maintenance mode onto an empty disk, and then from that disk."""

from driver.node import Disk, Node
from driver.scenarios import install, wait_for_installed
from driver.world import World

ASSETS = ("iso",)
NODES = {"node": Node(boot="bios", cdrom="iso", disks={"system": Disk(size="8G")})}


def test(world: World) -> None:
    node = world["node"]
    cluster = world.cluster()

    world.section("from the ISO to an installed disk")
    node.start()
    install(node, cluster)

    world.section("from the disk")
    wait_for_installed(node)
    assert "talos.platform=metal" in node.talosctl("read", "/proc/cmdline").stdout
