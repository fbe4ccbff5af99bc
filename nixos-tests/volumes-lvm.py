"""A mirrored logical volume over two disks: made, used, grown, there after a restart, and removed."""

from driver.client import Document, at
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import check_refused, install, make_removal, patch, volumes, wait_for_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
RESTART_TIMEOUT = 300  # seconds
COPY_TIMEOUT = 300  # seconds
MIB = 1 << 20
SIZE, LARGER = 320 * MIB, 640 * MIB
NODES = {
    "node": Node(
        hands_over_kernel=True,
        memory=2048,
        disks={"system": Disk(size="8G"), "one": Disk(size="1G"), "two": Disk(size="1G")},
    )
}
GROUP = """\
apiVersion: v1alpha1
kind: LVMVolumeGroupConfig
name: pool
provisioning: {volumeSelector: {match: 'disk.serial == "one" || disk.serial == "two"'}}
"""
VOLUME = """\
apiVersion: v1alpha1
kind: LVMLogicalVolumeConfig
name: data
type: raid1
provisioning: {volumeGroup: pool, maxSize: SIZE}
"""
DATA = """\
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
volumeType: disk
provisioning: {diskSelector: {match: '"/dev/disk/by-id/dm-name-pool-data" in disk.symlinks'}}
"""
STRIPES = """\
apiVersion: v1alpha1
kind: LVMLogicalVolumeConfig
name: stripes
type: raid0
provisioning: {volumeGroup: pool, maxSize: 10%}
"""
KINDS = (
    ("UserVolumeConfig", "data"),
    ("LVMLogicalVolumeConfig", "data"),
    ("LVMLogicalVolumeConfig", "stripes"),
    ("LVMVolumeGroupConfig", "pool"),
)


def by_id(node: Machine, kind: str) -> dict[object, Document]:
    return {at(document, "metadata.id"): document for document in node.get(kind)}


def check_volume(node: Machine, size: int) -> None:
    """The logical volume has its size, the filesystem on it too, and it is mounted."""
    errors = [(at(error, "metadata.id"), at(error, "spec.message")) for error in node.get("lvmve")]
    found = by_id(node, "lvs").get("pool-data", {})
    layout = [at(found, f"spec.{key}") for key in ("layout", "active", "size")]
    assert layout == ["raid,raid1", "active", str(size)], (found, errors)
    volume = volumes(node).get("u-data", {})
    assert at(volume, "spec.phase") == "ready", volume
    assert int(str(at(volume, "spec.size"))) == size, volume


def check_group(node: Machine) -> None:
    group = by_id(node, "vgs").get("pool", {})
    counts = [at(group, f"spec.{key}") for key in ("pvCount", "lvCount", "missingPVCount")]
    assert counts == ["2", "2", "0"], group
    assert sorted(map(str, by_id(node, "pvs"))) == ["vdb", "vdc"]
    striped = by_id(node, "lvs").get("pool-stripes", {})
    assert at(striped, "spec.layout") == "raid,raid0", striped


def check_errors(node: Machine, wanted: str) -> None:
    errors = [str(at(error, "spec.message")) for error in node.get("lvmve")]
    assert any(wanted in error for error in errors), errors


def check_gone(node: Machine, kind: str) -> None:
    assert not node.get(kind)


def check_unmounted(node: Machine) -> None:
    assert "u-data" not in volumes(node)


def count_copies(node: Machine) -> tuple[int, int]:
    """How often the kernel began to copy a mirror in this boot, and how often it came to the end."""
    log = node.talosctl("dmesg").stdout
    return log.count("resync of RAID array"), log.count("resync done")


def check_copied(node: Machine) -> None:
    begun, done = count_copies(node)
    assert begun == done, f"{begun} copies were begun, {done} are done"


def check_restarted(node: Machine, before: str) -> None:
    assert node.boot_id() != before


def test(world: World) -> None:
    node = world["node"]

    world.section("a machine without LVM has nothing of it")
    node.start()
    install(node, world.cluster())
    wait_for_installed(node)
    check_gone(node, "vgs")

    world.section("a group over two disks, a mirrored and a striped volume, and a user's on the first")
    patch(node, "---\n".join((GROUP, VOLUME.replace("SIZE", str(SIZE)), STRIPES, DATA)))
    node.wait_until("it is mounted", lambda: check_volume(node, SIZE))
    node.wait_until("the group has both disks and volumes", lambda: check_group(node))
    check_gone(node, "lvmve")

    world.section("it grows while it is used, and does not shrink")
    patch(node, VOLUME.replace("SIZE", str(LARGER)))
    node.wait_until("it has grown", lambda: check_volume(node, LARGER))
    patch(node, VOLUME.replace("SIZE", str(SIZE)))
    node.wait_until("a smaller one is refused", lambda: check_errors(node, "shrinking logical volumes"))

    world.section("restarted, it is there, and is not copied again")
    node.wait_until("the mirror is whole", lambda: check_copied(node), COPY_TIMEOUT)
    assert any(count_copies(node)), "the kernel's log has no copies"
    before = node.boot_id()
    node.talosctl("reboot", "--wait=false")
    node.wait_until("it has restarted", lambda: check_restarted(node, before), RESTART_TIMEOUT)
    wait_for_installed(node)
    node.wait_until("it is mounted", lambda: check_volume(node, LARGER))
    assert not any(count_copies(node)), node.talosctl("dmesg").stdout

    world.section("what is used is not removed")
    check_refused(node, "wipe", "lv", "pool/data", reason="lvm: logical volume is open")
    check_refused(node, "wipe", "vg", "pool", reason="lvm: logical volume is open")
    check_refused(node, "wipe", "pv", "/dev/vdb", reason="lvm: resource in use")
    check_refused(node, "wipe", "lv", "pool/other", reason="lvm: resource not found")
    check_refused(node, "wipe", "disk", "vdb", reason="in use")

    world.section("without its documents, it is removed by the API")
    patch(node, *(make_removal(kind, name) for kind, name in KINDS))
    node.wait_until("it is unmounted", lambda: check_unmounted(node))
    node.talosctl("wipe", "lv", "pool/data")
    node.talosctl("wipe", "vg", "pool")
    node.wait_until("they are not shown any more", lambda: check_gone(node, "vgs"))
    for device in ("/dev/vdb", "/dev/vdc"):
        node.talosctl("wipe", "pv", device)
    node.wait_until("nothing is left", lambda: check_gone(node, "pvs"))
