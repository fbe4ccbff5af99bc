"""QEMU's guest agent as an extension of a system that runs from memory; a layer that is altered."""

from dataclasses import replace

from driver.extension import NAME, NO_INSTALL, check_agent, check_extension
from driver.scenarios import UPGRADED
from driver.system_image import MAGIC
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "extensions")
NODES = {"node": replace(UPGRADED, guest_agent=True, hands_over_kernel=False)}
MADE_AT = 8
"""Offset in the superblock of squashfs: when the image was made."""


def test(world: World) -> None:
    node, releases, cluster = world["node"], world.releases(), world.cluster()
    extensions = world.assets.path("extensions")
    config = cluster.config(NO_INSTALL).read_text()
    node.initramfs = releases.initramfs(extensions=extensions)
    node.client.talosconfig = cluster.talosconfig

    world.section("a machine that runs from memory, with a config that installs nothing")
    url = world.web.serve("/config.yaml", config)
    node.start(node=replace(node.node, arguments=(f"talos.config={url}",)))
    node.wait_for_api()
    node.wait_until("the extension is shown", lambda: check_extension(node))
    check_agent(node)
    node.crash()

    world.section("a layer that is altered is not mounted")
    data = bytearray(extensions.read_bytes())
    data[data.index(MAGIC) + MADE_AT] ^= 1
    altered = world.folder / "altered"
    altered.write_bytes(data)
    node.initramfs = releases.initramfs(extensions=altered)
    with node.console.expect("Kernel panic"):
        node.start(node=replace(node.node, boot="pvh"))
        node.wait_for_console_text(rf"/extensions/000\.{NAME}\.sqsh does not match the root hash \w+")
        node.crash()
