"""The disk image boots, fills its disk, and keeps its data over a restart and a power cut."""

from driver.node import Disk, Node
from driver.scenarios import apply_config, gibibytes, wait_for_installed
from driver.world import World

ASSETS = ("disk-image",)
IMAGE = Disk(asset="disk-image", file="disk.qcow2", size="10G")
NODES = {"node": Node(boot="bios", disks={"system": IMAGE})}
TAG = "0x0c"
KEPT = "kept over restarts"
LOG = "/var/log/machined.log"
IMAGE_DIGEST = "/usr/install/rootfs.sqsh.sha256"
"""Of the system image, which the early init has just compared with it."""


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
    node.client.talosconfig = None
    node.wait_for_port()
    if node.client.run("version", insecure=True, check=False).code == 0:
        apply_config(node, cluster)  # the config had not reached the disk
    node.client.talosconfig = cluster.talosconfig
    wait_for_installed(node)
    assert gibibytes(node, "EPHEMERAL") > 7, "EPHEMERAL was not grown to its disk"
    node.talosctl("meta", "write", TAG, KEPT)
    before = node.boot_id()
    machine_id = node.talosctl("read", "/etc/machine-id").stdout
    image = node.talosctl("read", IMAGE_DIGEST).stdout
    log = node.talosctl("read", LOG).stdout.splitlines()
    assert log, f"{LOG} is empty"

    world.section("restarted by its API")
    node.talosctl("reboot", "--wait=false")
    node.wait_for_reset()
    wait_for_installed(node)
    assert node.boot_id() != before
    assert node.talosctl("read", "/etc/machine-id").stdout == machine_id
    assert node.talosctl("read", IMAGE_DIGEST).stdout == image
    assert log[0] in node.talosctl("read", LOG).stdout, "what was in /var is lost"
    assert KEPT in node.talosctl("get", "metakeys", "-o", "yaml").stdout
