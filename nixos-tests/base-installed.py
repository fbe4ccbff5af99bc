"""A machine is installed and switched off; the tests of upgrades begin with its disk."""

from driver.saved import save
from driver.scenarios import UPGRADED, install_new
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool")
NODES = {"node": UPGRADED}


def test(world: World) -> None:
    install_new(world["node"], world.cluster(), world.releases())
    save(world)
