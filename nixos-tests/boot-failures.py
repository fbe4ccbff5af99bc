"""A damaged image or a missing kernel argument is one clear line on the console, and the boot ends there."""

from dataclasses import replace

from driver.disks import add_to_initramfs
from driver.node import Node
from driver.system_image import flip_bit
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
NODES = {"node": Node()}


def test(world: World) -> None:
    node = world["node"]
    plain = node.node

    initramfs, copy = world.assets.path("initramfs"), world.folder / "damaged"

    world.section("a flipped bit in the system image")
    copy.write_bytes(flip_bit(initramfs.read_bytes()))
    node.initramfs = copy
    with node.console.expect("Kernel panic"):
        node.start()
        node.wait_for_console_text(r"verity: 7:0: data block \d+ is corrupted")
        node.wait_for_console_text("Kernel panic - not syncing: dm-verity device corrupted")
        node.crash()

    world.section("another root hash than the system image's")
    node.initramfs = add_to_initramfs(initramfs, copy, "rootfs.roothash", b"0" * 64 + b"\n")
    with node.console.expect("Kernel panic"):
        node.start()
        node.wait_for_console_text(r"/rootfs\.sqsh does not match the root hash 0{64}")
        node.wait_for_console_text("the system image is corrupt; boot the other slot or install again")
        node.wait_for_console_text("Kernel panic")
        node.crash()
    node.initramfs = None

    world.section("a required kernel argument is missing")
    with node.console.expect("sequence initialize: did not end well"):
        node.start(node=replace(plain, without=("pti=on",)))
        node.wait_for_console_text("enforceKSPPRequirements .*pti=on")
        node.wait_for_console_text("rebooting in")
        node.crash()
