"""A machine boots from kernel and initramfs: to maintenance mode, or with a config from three places."""

from driver.node import Node
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
NODES = {"node": Node()}


def test(world: World) -> None:
    node = world["node"]

    world.section("maintenance mode")
    node.start()
    node.wait_for_api(insecure=True)
    node.talosctl("get", "disks", insecure=True)
