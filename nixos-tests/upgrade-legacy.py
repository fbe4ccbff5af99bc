"""An upgrade by the call of older nodes, which stops services first, to an older release; and a rollback."""

from dataclasses import replace

from driver.boot_loader import read_boot_loader
from driver.node import Disk
from driver.scenarios import UPGRADE_TIMEOUT, UPGRADED, read_version, start_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "base-installed")
NODES = {"node": replace(UPGRADED, disks={"system": Disk(size="8G", raw=True)})}


def test(world: World) -> None:
    node = world["node"]
    disk = node.disk("system")
    releases = start_installed(world, node)
    result = node.client.run("upgrade", "--image", releases.make("v1.15.3"), seconds=UPGRADE_TIMEOUT)
    assert read_version(node) == "v1.15.3 in B", result.stderr
    node.wait_for_reset()  # the upgrade's, which talosctl has seen through
    before = read_boot_loader(world.programs, disk)

    world.section("a release that is older is refused")
    words = ("--reboot-mode", "powercycle", "--image", releases.make("v1.15.3-rc.1"))
    result = node.client.run("upgrade", "--legacy", *words, check=False, seconds=UPGRADE_TIMEOUT)
    assert result.code, "an older release was accepted"
    assert "is older than the running v1.15.3" in result.stderr, result.stderr

    world.section("unless it is forced")
    result = node.client.run("upgrade", "--force", *words, seconds=UPGRADE_TIMEOUT)
    assert "v1.15.3-rc.1 is the default" in result.stderr, result.stderr
    assert read_version(node) == "v1.15.3-rc.1 in A"
    node.wait_for_reset()
    assert read_boot_loader(world.programs, disk) == before, "an older release replaced it"

    world.section("and back")
    node.talosctl("rollback")
    node.wait_for_reset()
    node.wait_for_api()
    node.wait_for_console_text("in slot B is the default from now on", 300)
    assert read_version(node) == "v1.15.3 in B"
    assert read_boot_loader(world.programs, disk) == before, "a rollback replaced it"
