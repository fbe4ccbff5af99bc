"""A system with an extension: QEMU's guest agent answers, from the first boot on and from the disk."""

from dataclasses import replace

from driver.client import at
from driver.machine import Machine
from driver.scenarios import UPGRADE_SECONDS, UPGRADED, install_release
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "extensions")
NODES = {"node": replace(UPGRADED, guest_agent=True)}
NAME = "qemu-guest-agent"


def test(world: World) -> None:
    node = world["node"]
    extensions = world.assets.path("extensions")
    releases = install_release(world, node, extensions=extensions)

    world.section("the extension runs from the disk")
    check_extension(node)
    assert node.ask_agent("guest-ping") == {}
    info = str(node.ask_agent("guest-info"))
    assert "'version': '10." in info, info
    for command in ("guest-exec", "guest-file-open", "guest-shutdown"):
        assert f"'enabled': False, 'name': '{command}'" in info, info
    assert "10.0.2.15" in str(node.ask_agent("guest-network-get-interfaces"))
    assert "Talos" in str(node.ask_agent("guest-get-osinfo"))

    world.section("a release without it is refused, one with it is not")
    result = node.client.run(
        "upgrade", "--image", releases.make("v1.15.1"), check=False, seconds=UPGRADE_SECONDS
    )
    assert result.code, "the release was accepted"
    assert f"lacks what this machine uses: extension.{NAME}" in result.stderr, result.stderr


def check_extension(node: Machine) -> None:
    """Assert that the system has the extension, in the API and in what it lists as its parts."""
    (layer,) = node.get("extensions")
    assert at(layer, "metadata.id") == "0"
    assert at(layer, "spec.image") == f"000.{NAME}.sqsh"
    assert at(layer, "spec.metadata.name") == NAME
    assert NAME in node.talosctl("read", "/etc/extensions.yaml").stdout
    packages = [at(item, "metadata.id") for item in node.get("sbom") if at(item, "spec.extension")]
    assert f"{NAME}/libglib2.0-0t64" in packages
