"""QEMU's guest agent as an extension: the system runs from memory, is installed, and runs from its disk."""

from dataclasses import replace

from driver.client import at
from driver.lifecycle import install
from driver.machine import Machine
from driver.scenarios import DISK, UPGRADE_TIMEOUT, UPGRADED, check_volumes, read_version, wait_for_installed
from driver.system_image import MAGIC
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "extensions", "boot-loader")
NODES = {"node": replace(UPGRADED, guest_agent=True, hands_over_kernel=False)}
NAME = "qemu-guest-agent"
MADE_AT = 8
"""Offset in the superblock of squashfs: when the image was made."""
NO_INSTALL = "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\n$patch: delete\n"


def test(world: World) -> None:
    node, releases, cluster = world["node"], world.releases(), world.cluster()
    extensions = world.assets.path("extensions")
    config = cluster.config(releases.patch, NO_INSTALL).read_text()
    node.initramfs = releases.initramfs(extensions=extensions)
    node.client.talosconfig = cluster.talosconfig

    world.section("a machine that runs from memory, with a config that installs nothing")
    url = world.web.serve("/config.yaml", config)
    node.start(node=replace(node.node, arguments=(f"talos.config={url}",)))
    node.wait_for_api()
    node.wait_until("the extension is shown", lambda: check_extension(node))
    check_agent(node)

    world.section("a release is installed through the API")
    boot = world.assets.path("boot-loader")
    plain, extended = releases.make("v1.15.1"), releases.make("v1.15.2", extensions=extensions, boot=boot)
    lines, code = install(node.client, plain, DISK)
    assert (code, lines[-1]) == (2, f"refused: image {plain}: it lacks boot.img, so it can't be installed\n")
    lines, code = install(node.client, extended, "/dev/vdz")
    assert (code, "there is no disk /dev/vdz" in lines[-1]) == (2, True), lines
    lines, code = install(node.client, extended, DISK)
    world.show("".join(lines))
    assert (code, lines[-1]) == (0, f"{DISK} is installed\n")
    node.wait_until("the volumes are ready", lambda: check_volumes(node), 120)
    node.crash()

    world.section("and runs from its disk")
    node.start(node=replace(node.node, boot="bios"))
    wait_for_installed(node)
    assert read_version(node) == "v1.15.2 in A"
    node.wait_until("the extension is shown", lambda: check_extension(node))
    check_agent(node)

    world.section("a release without the extension is refused")
    result = node.client.run("upgrade", "--image", plain, check=False, seconds=UPGRADE_TIMEOUT)
    assert result.code, "the release was accepted"
    assert f"lacks what this machine uses: extension.{NAME}" in result.stderr, result.stderr
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


def check_extension(node: Machine) -> None:
    """Assert that the system has the extension, in the API and in what it lists as its parts."""
    layers = node.get("extensions")
    assert [at(layer, "metadata.id") for layer in layers] == ["0"], layers
    (layer,) = layers
    assert at(layer, "spec.image") == f"000.{NAME}.sqsh"
    assert at(layer, "spec.metadata.name") == NAME
    assert NAME in node.talosctl("read", "/etc/extensions.yaml").stdout
    packages = [at(item, "metadata.id") for item in node.get("sbom") if at(item, "spec.extension")]
    assert f"{NAME}/libglib2.0-0t64" in packages


def check_agent(node: Machine) -> None:
    """Assert that the agent answers what it may, and nothing else."""
    assert node.call_agent("guest-ping") == {}
    info = str(node.call_agent("guest-info"))
    assert "'version': '10." in info, info
    for command in ("guest-exec", "guest-file-open", "guest-shutdown"):
        assert f"'enabled': False, 'name': '{command}'" in info, info
    assert "10.0.2.15" in str(node.call_agent("guest-network-get-interfaces"))
    assert "Talos" in str(node.call_agent("guest-get-osinfo"))
