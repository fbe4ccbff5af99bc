"""ETCD on a partition of a second disk, LOG on one of the system's: made, used after a restart, reset."""

from driver.bootstrap import begin_etcd, check_etcd
from driver.client import at
from driver.configs import FROM_CACHE
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import check_refused, install, make_removal, volumes, wait_for_installed
from driver.world import World

ASSETS = ("iso-images",)
# No packet leaves the machine's network: etcd's image comes with the ISO.
ALONE = Node(
    boot="bios",
    cdrom="iso-images",
    memory=2048,
    disks={"system": Disk(size="9G"), "fast": Disk(size="3G")},
    network=("restrict=on",),
)
NODES = {"node": ALONE}
ETCD = """\
apiVersion: v1alpha1
kind: VolumeConfig
name: ETCD
provisioning: {diskSelector: {match: 'disk.serial == "fast"'}, minSize: 1GiB}
"""
LOG = "apiVersion: v1alpha1\nkind: VolumeConfig\nname: LOG\nprovisioning: {maxSize: 1GiB}\n"
READY_TIMEOUT = 600  # seconds
DATA, LOGS = "/var/lib/etcd/member/wal", "/var/log/machined.log"


def check_volume(node: Machine, name: str, disk: str, options: str) -> None:
    """It is on a partition of this disk, and mounted so."""
    volume = volumes(node).get(name, {})
    assert at(volume, "spec.phase") == "ready", volume
    assert str(at(volume, "spec.location")).startswith(disk), volume
    mounts = {str(at(mount, "metadata.id")): mount for mount in node.get("mounts")}
    assert options in str(at(mounts[name], "spec.options")), mounts[name]


def check_both(node: Machine) -> None:
    for name, disk in (("ETCD", "/dev/vdb"), ("LOG", "/dev/vda")):
        check_volume(node, name, disk, "noexec")
    assert node.client.run("read", LOGS).stdout, "the logs are not on the disk"


def check_data(node: Machine) -> None:
    check_etcd(node)
    assert node.client.run("list", DATA).stdout


def check_restarted(node: Machine, before: str) -> None:
    assert node.boot_id() != before


def check_empty(node: Machine) -> None:
    assert node.client.run("list", DATA, check=False).code, "etcd's data is still there"


def test(world: World) -> None:
    node = world["node"]

    world.section("each is made before EPHEMERAL takes the rest of the disk, and mounted within it")
    node.start()
    install(node, world.cluster(), *FROM_CACHE, ETCD, LOG)
    node.crash()
    node.cdrom = None
    node.start()
    wait_for_installed(node)
    node.wait_until("both are mounted", lambda: check_both(node), READY_TIMEOUT)
    node.wait_until("etcd begins", lambda: begin_etcd(node), READY_TIMEOUT)
    node.wait_until("etcd runs", lambda: check_data(node), READY_TIMEOUT)

    world.section("what they are stays as it is")
    removal = make_removal("VolumeConfig", "LOG")
    check_refused(node, "patch", "machineconfig", "--patch", removal, reason="VolumeConfig cannot be removed")
    check_refused(node, "reset", "--system-labels-to-wipe", "KUBELET", reason='resides on volume "EPHEMERAL"')

    world.section("after a restart etcd goes on with its data")
    before = node.boot_id()
    node.talosctl("reboot", "--wait=false")
    node.wait_until("it has restarted", lambda: check_restarted(node, before), READY_TIMEOUT)
    node.wait_until("both are mounted", lambda: check_both(node), READY_TIMEOUT)
    node.wait_until("etcd runs", lambda: check_data(node), READY_TIMEOUT)

    world.section("a reset of one leaves the others as they are, and it is made anew")
    before = node.boot_id()
    reset = ("--graceful=false", "--reboot", "--wait=false")
    node.talosctl("reset", "--system-labels-to-wipe", "ETCD", *reset)
    node.wait_until("it has restarted", lambda: check_restarted(node, before), READY_TIMEOUT)
    node.wait_until("both are mounted", lambda: check_both(node), READY_TIMEOUT)
    check_empty(node)
