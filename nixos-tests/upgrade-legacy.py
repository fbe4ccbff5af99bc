"""An upgrade by the call of older nodes, to an older release: services stop, then the slot is written."""

from dataclasses import replace

from driver.boot_loader import read_boot_loader
from driver.node import Disk
from driver.scenarios import INSTALLED_VERSION, UPGRADE_TIMEOUT, UPGRADED, read_version, start_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "base-installed")
NODES = {"node": replace(UPGRADED, disks={"system": Disk(size="8G", raw=True)})}


def test(world: World) -> None:
    node = world["node"]
    disk = node.disk("system")
    releases = start_installed(world, node)
    before = read_boot_loader(world.programs, disk)
    assert read_version(node) == INSTALLED_VERSION

    image = releases.make("v1.14.9")
    words = ("upgrade", "--legacy", "--reboot-mode", "powercycle", "--image", image)
    result = node.client.run(*words, check=False, seconds=UPGRADE_TIMEOUT)
    assert result.code, "an older release was accepted"
    assert "is older than the running v1.15.0-alpha.0" in result.stderr, result.stderr

    result = node.client.run(*words, "--force", seconds=UPGRADE_TIMEOUT)
    assert "v1.14.9 is the default" in result.stderr, result.stderr
    assert read_version(node) == "v1.14.9 in B"
    node.wait_for_reset()  # the upgrade's, which talosctl has seen through
    assert read_boot_loader(world.programs, disk) == before, "an older release replaced it"
