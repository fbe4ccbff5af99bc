"""A release with an extension is installed through the API by a system in memory, and runs from its disk."""

from dataclasses import replace

from driver.extension import NAME, NO_INSTALL, check_agent, check_extension
from driver.lifecycle import install
from driver.scenarios import DISK, UPGRADE_TIMEOUT, UPGRADED, check_volumes, read_version, wait_for_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "extensions", "boot-loader")
NODES = {"node": replace(UPGRADED, guest_agent=True, hands_over_kernel=False)}


def test(world: World) -> None:
    node, releases, cluster = world["node"], world.releases(), world.cluster()
    extensions = world.assets.path("extensions")
    config = cluster.config(releases.patch, NO_INSTALL).read_text()
    node.initramfs = releases.initramfs(extensions=extensions)
    node.client.talosconfig = cluster.talosconfig
    url = world.web.serve("/config.yaml", config)
    node.start(node=replace(node.node, arguments=(f"talos.config={url}",)))
    node.wait_for_api()

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
