"""Machines form a cluster with Kubernetes and are switched off; tests of it begin with their disks."""

from driver.clusters import diagnosed_on_failure
from driver.kubernetes import MACHINES, form_kubernetes
from driver.saved import save
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "images-all", "discovery", "base-installed")
NODES = MACHINES


def test(world: World) -> None:
    with diagnosed_on_failure(world):
        form_kubernetes(world).switch_off()
    save(world)
