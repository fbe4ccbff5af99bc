"""A machine without a network to anywhere: its ISO's images go to its disk, and etcd runs from them."""

from driver.client import at
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
PATCHES = (
    "apiVersion: v1alpha1\nkind: ImageCacheConfig\nlocal: {enabled: true}\n",
    "apiVersion: v1alpha1\nkind: VolumeConfig\nname: IMAGECACHE\n",
    "apiVersion: v1alpha1\nkind: TimeSyncConfig\nenabled: false\n",
)
DISK = "/system/imagecache/disk"
READY_TIMEOUT = 600  # seconds


def test(world: World) -> None:
    node, cluster = world["node"], world.cluster()

    world.section("from the ISO to an installed disk with its images")
    node.start()
    node.wait_for_api(insecure=True)
    apply_config(node, cluster, *PATCHES)
    node.wait_for_console_text("the cache of images is on the disk", INSTALL_TIMEOUT)
    node.wait_for_reset(INSTALL_TIMEOUT)

    world.section("from the disk, without the ISO")
    node.crash()
    node.cdrom = None
    node.start()
    wait_for_installed(node)
    node.wait_until("the cache is served", lambda: check_cache(node), READY_TIMEOUT)
    node.wait_until("etcd begins", lambda: begin(node), READY_TIMEOUT)
    node.wait_until("etcd runs from the cache", lambda: check_etcd(node), READY_TIMEOUT)


def check_cache(node: Machine) -> None:
    """Assert that the disk's images are served."""
    (cache,) = node.get("imagecacheconfigs")
    found = (at(cache, "spec.status"), at(cache, "spec.copyStatus"), at(cache, "spec.roots"))
    assert found == ("ready", "skipped", [DISK]), found


def begin(node: Machine) -> None:
    """Begin etcd, unless a call before whose answer was lost has done that."""
    result = node.client.run("bootstrap", check=False)
    assert result.code == 0 or "AlreadyExists" in result.stderr, result.stderr


def check_etcd(node: Machine) -> None:
    """Assert that etcd is healthy."""
    services = {at(service, "metadata.id"): service for service in node.get("services")}
    assert at(services.get("etcd", {}), "spec.healthy") is True, services
