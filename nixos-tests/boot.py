"""A machine boots from kernel and initramfs, with a config from one of three places; its button."""

from dataclasses import replace

from driver.inline import inline_argument
from driver.node import Node
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
NODES = {"node": Node()}
NO_DISK = "sequence install: did not end well .*no disk matches"
"""These machines have none, and report that."""
PART = "apiVersion: v1alpha1\nkind: StaticHostConfig\nname: 10.0.2.99\nhostnames: [from-the-arguments]\n"


def test(world: World) -> None:
    node = world["node"]
    plain = node.node
    cluster = world.cluster()
    config = cluster.config().read_text()

    node.client.talosconfig = cluster.talosconfig
    world.section("with two processors: the config by URL, and before it a part in the kernel's arguments")
    url = world.web.serve("/config.yaml", config)
    arguments = (f"talos.config={url}", inline_argument(PART, "talos.config.early"))
    with node.console.expect(NO_DISK):
        node.start(node=replace(plain, processors=2, arguments=arguments))
        node.wait_for_console_text(NO_DISK)
        node.wait_for_api()
        assert world.web.requests == ["/config.yaml"]
        assert "from-the-arguments" in node.talosctl("get", "machineconfig", "-o", "yaml").stdout
        node.crash()

    world.section("the config is on a volume, and the system disk is to be erased, of which there is none")
    node.cdrom = world.iso("metal-iso", config__yaml=config)
    with node.console.expect(NO_DISK):
        arguments = ("talos.config=metal-iso", "talos.experimental.wipe=system")
        node.start(node=replace(plain, arguments=arguments))
        node.wait_for_console_text("there is no system disk to erase")
        node.wait_for_api()

    world.section("the power button is pressed: it shuts down and switches itself off")
    node.monitor.execute("system_powerdown")
    node.wait_for_off()
