"""A mirror of two disks: made, used without one, rebuilt on a new one that fails, grown, and destroyed."""

from dataclasses import replace

from driver.client import Document, at
from driver.machine import Machine
from driver.node import Disk, Node
from driver.recorder import EIO
from driver.scenarios import (
    check_diagnostic,
    check_refused,
    install,
    make_removal,
    patch,
    volumes,
    wait_for_installed,
)
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
SYNC_TIMEOUT = 300  # seconds
SMALL = Disk(size="512M")
DISKS = {"system": Disk(size="8G"), "one": SMALL, "two": SMALL, "three": replace(SMALL, recorded=True)}
NODES = {"node": Node(hands_over_kernel=True, memory=2048, disks=DISKS)}
LINK = "/dev/disk/by-id/md-name-talos:mirror"
ARRAY = """\
apiVersion: v1alpha1
kind: RAIDArrayConfig
name: mirror
level: raid1
provisioning: {volumeSelector: {match: 'disk.serial in ["one", "two", "three"]'}}
"""
DATA = f"""\
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
provisioning: {{diskSelector: {{match: '"{LINK}" in disk.symlinks'}}, minSize: 300MiB}}
"""


def start_with(node: Machine, *names: str) -> None:
    """With these disks besides the system's."""
    node.start(node=replace(node.node, disks={name: DISKS[name] for name in ("system", *names)}))
    wait_for_installed(node)


def check_array(node: Machine, members: int, slots: int, status: str = "ready") -> Document:
    found = {at(each, "metadata.id"): each for each in node.get("mdarraystatus")}.get("mirror", {})
    assert at(found, "spec.status") == status, found
    assert str(at(found, "spec.members")).count("/dev/") == members, found
    assert int(str(at(found, "spec.raidDevices"))) == slots, found
    return found


def check_whole(node: Machine, members: int) -> None:
    found = check_array(node, members, members)
    assert at(found, "spec.device") == LINK, found
    assert at(found, "spec.syncAction") == "idle", found
    assert not at(found, "spec.error"), found


def check_mounted(node: Machine) -> None:
    volume = volumes(node).get("u-data", {})
    assert at(volume, "spec.phase") == "ready", volume
    assert str(at(volume, "spec.location")).startswith("/dev/md"), volume


def check_gone(node: Machine, kind: str) -> None:
    assert not node.get(kind)


def check_unmounted(node: Machine) -> None:
    assert "u-data" not in volumes(node)


def test(world: World) -> None:
    node = world["node"]

    world.section("a machine without arrays has nothing of them")
    node.start(node=replace(node.node, disks={name: DISKS[name] for name in ("system", "one", "two")}))
    install(node, world.cluster())
    wait_for_installed(node)
    check_gone(node, "mdarraystatus")

    world.section("an array of two disks, and a user's volume on it")
    patch(node, "---\n".join((ARRAY, DATA)))
    node.wait_until("it has both disks", lambda: check_whole(node, 2))
    node.wait_until("the volume is mounted", lambda: check_mounted(node))
    check_refused(node, "wipe", "disk", "vdb", reason="in use")
    check_refused(node, "wipe", "md", LINK, reason="md: resource in use")
    check_refused(node, "wipe", "md", "/dev/md7", reason="md: array not found")

    world.section("after a power cut one disk is gone: it is used without it, and that is shown")
    node.crash()
    start_with(node, "one")
    node.wait_until("it has one disk", lambda: check_array(node, 1, 2), SYNC_TIMEOUT)
    node.wait_until("the volume is mounted", lambda: check_mounted(node))
    check_diagnostic(node, "1 of 2 members are missing")

    world.section("a new disk in its place is filled")
    node.crash()
    start_with(node, "one", "three")
    node.wait_until("it has both disks", lambda: check_whole(node, 2), SYNC_TIMEOUT)
    node.wait_until("the volume is mounted", lambda: check_mounted(node))

    world.section("it fails: the other is used without it, and it is taken back when it works again")
    with node.recorded["three"].fail(lambda offset, length: EIO):
        patch(node, make_removal("UserVolumeConfig", "data"))  # which writes to the array
        node.wait_until("it has one disk", lambda: check_array(node, 1, 2))
        check_diagnostic(node, "1 of 2 members are missing, /dev/vdc failed")
        patch(node, DATA)
        node.wait_until("the volume is mounted", lambda: check_mounted(node))
    node.crash()
    start_with(node, "one", "three")
    node.wait_until("it has both disks", lambda: check_whole(node, 2), SYNC_TIMEOUT)
    node.wait_until("the volume is mounted", lambda: check_mounted(node))

    world.section("the old disk comes back: what is on it is not written over, nor used")
    node.crash()
    start_with(node, "one", "three", "two")
    check_diagnostic(node, "was a member of this array")
    node.wait_until("it has its two disks", lambda: check_array(node, 2, 2), SYNC_TIMEOUT)
    node.talosctl("wipe", "disk", "vdd")
    node.wait_until("it has three disks", lambda: check_whole(node, 3), SYNC_TIMEOUT)

    world.section("without its documents, it is destroyed by the API")
    patch(node, make_removal("UserVolumeConfig", "data"), make_removal("RAIDArrayConfig", "mirror"))
    node.wait_until("it is unmounted", lambda: check_unmounted(node))
    node.talosctl("wipe", "md", LINK)
    node.wait_until("nothing is left", lambda: check_gone(node, "mdarraystatus"))
