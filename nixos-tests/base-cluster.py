"""Three machines form a cluster and are switched off; the tests of clusters begin with their disks."""

from driver.clusters import MEMBERS, diagnosed_on_failure, form_cluster, switch_off
from driver.saved import save
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "images", "discovery", "base-installed")
NODES = MEMBERS


def test(world: World) -> None:
    with diagnosed_on_failure(world):
        switch_off(form_cluster(world).machines)
    save(world)
