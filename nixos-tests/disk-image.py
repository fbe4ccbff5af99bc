"""The disk image boots, fills its disk, and keeps data and users' volumes over a restart and a power cut."""

from driver.client import at
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import (
    apply_config,
    configure_if_needed,
    gibibytes,
    read_log,
    volumes,
    wait_for_installed,
)
from driver.world import World

ASSETS = ("disk-image",)
IMAGE = Disk(asset="disk-image", file="disk.qcow2", size="10G")
BLANK = Disk(size="1G", bus="nvme")
NODES = {"node": Node(boot="bios", disks={"system": IMAGE, "one": BLANK, "two": BLANK})}
TAG = "0x0c"
KEPT = "kept over restarts"
ROOT_HASH = "/usr/install/rootfs.roothash"
"""Of the system image, with which the kernel compares what it reads of that."""


def test(world: World) -> None:
    node = world["node"]
    cluster = world.cluster()

    world.section("the first boot, with the power cut while volumes are made")
    node.start()
    node.wait_for_api(insecure=True)
    apply_config(node, cluster)
    node.wait_for_console_text("STATE|ephemeral")
    node.crash()

    world.section("once more")
    node.start()
    configure_if_needed(node, cluster)
    wait_for_installed(node)
    assert gibibytes(node, "EPHEMERAL") > 7, "EPHEMERAL was not grown to its disk"
    node.talosctl("meta", "write", TAG, KEPT)
    before = node.boot_id()
    machine_id = node.talosctl("read", "/etc/machine-id").stdout
    image = node.talosctl("read", ROOT_HASH).stdout
    log = read_log(node)

    world.section("a partition and a whole disk for a user, at once; a disk that is in use is refused")
    node.talosctl("patch", "machineconfig", "--patch", make_volumes(WANTED | {"taken": REFUSED}))
    node.wait_until("the user's volumes are there", lambda: check_user_volumes(node))
    found = volumes(node)
    made = {name: at(found[f"u-{name}"], "spec.uuid") for name in WANTED}
    node.wait_until("the volume is refused", lambda: check_refusal(node))

    world.section("restarted by its API")
    node.talosctl("reboot", "--wait=false")
    node.wait_for_reset()
    wait_for_installed(node)
    assert node.boot_id() != before
    assert node.talosctl("read", "/etc/machine-id").stdout == machine_id
    assert node.talosctl("read", ROOT_HASH).stdout == image
    assert read_log(node) == log, "what was in /var is lost"
    assert KEPT in node.talosctl("get", "metakeys", "-o", "yaml").stdout
    node.wait_until("the user's volumes are there again", lambda: check_user_volumes(node))
    assert {name: at(volumes(node)[f"u-{name}"], "spec.uuid") for name in WANTED} == made
    node.talosctl(
        "patch", "machineconfig", "--patch", f"{make_volumes({'part': WANTED['part']})}$patch: delete"
    )
    node.wait_until("it is unmounted", lambda: check_mounts(node, {"whole"}))

    world.section("its partition as one that exists, read-only; all filesystems are checked")
    node.talosctl("patch", "machineconfig", "--patch", EXISTING)
    node.wait_until("it is mounted", lambda: check_mounts(node, {"whole", "kept"}))
    assert at(volumes(node)["e-kept"], "spec.uuid") == made["part"]
    (mount,) = (line for line in list_mounts(node) if line[1] == "/var/mnt/kept")
    assert {"ro", "nosuid", "nodev", "noexec"} <= {*mount[3].split(",")}, mount
    node.wait_until("no damage is found", lambda: check_scrubs(node))


WANTED = {
    "part": ("partition", 'disk.serial == "one"', ", minSize: 300MiB, maxSize: 500MiB"),
    "whole": ("disk", 'disk.serial == "two"', ""),
}
"""Users' volumes by name: type, selector, and size."""
REFUSED = ("disk", 'disk.serial == "one"', "")

EXISTING = """\
apiVersion: v1alpha1
kind: ExistingVolumeConfig
name: kept
discovery: {volumeSelector: {match: 'volume.partition_label == "u-part" && disk.serial == "one"'}}
mount: {readOnly: true}
---
apiVersion: v1alpha1
kind: FilesystemScrubConfig
interval: 10s
"""


def make_volumes(wanted: dict[str, tuple[str, str, str]]) -> str:
    """Documents."""
    return "".join(
        f"---\napiVersion: v1alpha1\nkind: UserVolumeConfig\nname: {name}\nvolumeType: {kind}\n"
        f"provisioning: {{diskSelector: {{match: '{selector}'}}{size}}}\n"
        for name, (kind, selector, size) in wanted.items()
    )


def list_mounts(node: Machine) -> list[list[str]]:
    """The lines of ``/proc/mounts`` as fields: source, place, type, options."""
    return [line.split() for line in node.client.run("read", "/proc/mounts").stdout.splitlines()]


def check_mounts(node: Machine, names: set[str]) -> None:
    lines = list_mounts(node)
    found = {line[1] for line in lines if line[1].startswith("/var/mnt/")}
    assert found == {f"/var/mnt/{name}" for name in names}, lines


def check_user_volumes(node: Machine) -> None:
    """Assert that they are mounted, each where it was wanted."""
    found = volumes(node)
    places = {name: at(found.get(f"u-{name}", {}), "spec.location") for name in WANTED}
    disks = {str(at(disk, "spec.serial")): str(at(disk, "metadata.id")) for disk in node.get("disks")}
    assert places == {"part": f"/dev/{disks.get('one')}p1", "whole": f"/dev/{disks.get('two')}"}, places
    check_mounts(node, {*WANTED})


def check_scrubs(node: Machine) -> None:
    """Assert that filesystems that can be written to were checked."""
    found = {str(at(one, "metadata.id")): at(one, "spec.status") for one in node.get("fsscrubstatuses")}
    assert found == dict.fromkeys(("EPHEMERAL", "STATE", "u-whole"), "success"), found


def check_refusal(node: Machine) -> None:
    error = at(volumes(node).get("u-taken", {}), "spec.errorMessage")
    assert "holds gpt, no xfs: it is not formatted over" in str(error), error
