"""A release without a network, by the older call: its self-check fails, the old one is back and says why."""

from driver.scenarios import UPGRADE_SECONDS, UPGRADED, install_release, read_diagnostics, read_version
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool")
NODES = {"node": UPGRADED}


def test(world: World) -> None:
    node = world["node"]
    releases = install_release(world, node)
    image = releases.make("v1.15.1", arguments="initcall_blacklist=virtio_net_driver_init")
    result = node.client.run("upgrade", "--legacy", "--image", image, check=False, seconds=UPGRADE_SECONDS)
    world.show(result.stderr)
    assert result.code, "talosctl takes a reverted upgrade for a success"
    assert "self-check: after 300 s" in result.stderr
    assert "the network is not ready" in read_diagnostics(node)
    assert read_version(node) == "v1.15.0-alpha.0 in A"
