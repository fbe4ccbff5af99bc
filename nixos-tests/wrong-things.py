"""What is wrong with an image or its arguments is one clear line on the console, and nothing goes on."""

from dataclasses import replace
from pathlib import Path

from driver.node import Node
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
NODES = {"node": Node()}


def damage(initramfs: Path, copy: Path) -> Path:
    """Change one byte in the middle: that is in the system image."""
    data = bytearray(initramfs.read_bytes())
    data[len(data) // 2] ^= 0xFF
    copy.write_bytes(data)
    return copy


def test(world: World) -> None:
    node = world["node"]
    plain = node.node

    world.section("a damaged system image")
    node.initramfs = damage(world.assets.path("initramfs"), world.folder / "damaged")
    with node.console.expect("Kernel panic"):
        node.start()
        node.wait_for_console_text("digest")
        node.wait_for_console_text("Kernel panic")
        node.crash()
    node.initramfs = None

    world.section("a required kernel argument is missing")
    with node.console.expect("sequence initialize: did not end well"):
        node.start(node=replace(plain, without=("pti=on",)))
        node.wait_for_console_text("enforceKSPPRequirements .*pti=on")
        node.wait_for_console_text("rebooting in")
        node.crash()
