"""A machine without a network to anywhere: its ISO's images go to its disk, and etcd runs from them."""

from driver.bootstrap import begin_etcd, check_etcd
from driver.client import at
from driver.configs import FROM_CACHE
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import INSTALL_TIMEOUT, apply_config, wait_for_installed
from driver.world import World

ASSETS = ("iso-images",)
# No packet leaves the machine's network, which has neither a name server nor a registry.
ALONE = Node(
    boot="bios", cdrom="iso-images", memory=2048, disks={"system": Disk(size="8G")}, network=("restrict=on",)
)
NODES = {"node": ALONE}
DISK = "/system/imagecache/disk"
READY_TIMEOUT = 600  # seconds


def test(world: World) -> None:
    node, cluster = world["node"], world.cluster()

    world.section("from the ISO to an installed disk with its images")
    node.start()
    node.wait_for_api(insecure=True)
    apply_config(node, cluster, *FROM_CACHE)
    node.wait_for_console_text("the cache of images is on the disk", INSTALL_TIMEOUT)
    node.wait_for_reset(INSTALL_TIMEOUT)

    world.section("from the disk, without the ISO")
    node.crash()
    node.cdrom = None
    node.start()
    wait_for_installed(node)
    node.wait_until("the cache is served", lambda: check_cache(node), READY_TIMEOUT)
    node.wait_until("etcd begins", lambda: begin_etcd(node), READY_TIMEOUT)
    node.wait_until("etcd runs from the cache", lambda: check_etcd(node), READY_TIMEOUT)


def check_cache(node: Machine) -> None:
    """Assert that the disk's images are served."""
    (cache,) = node.get("imagecacheconfigs")
    found = (at(cache, "spec.status"), at(cache, "spec.copyStatus"), at(cache, "spec.roots"))
    assert found == ("ready", "skipped", [DISK]), found
