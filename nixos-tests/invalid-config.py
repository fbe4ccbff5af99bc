"""Errors of configs and disks are reported with their reason; then a valid config is applied."""

from driver.configs import Cluster
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import check_volumes
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
BROKEN_URL = "http://10.0.2.2:1/config.yaml"
"""No process listens there."""
SMALL, LARGE = "/dev/vda", "/dev/nvme0n1"
NODES = {
    "node": Node(
        hands_over_kernel=True,
        arguments=(f"talos.config={BROKEN_URL}",),
        disks={"small": Disk(size="3G"), "large": Disk(size="8G", sector=4096, bus="nvme")},
    )
}
MISTAKES = """\
version: v1alpha1
machine:
  type: overlord
  certSANs: yes please
  network: {interfaces: [{interface: eth0, mtu: many}]}
colour: blue
"""
"""Four of them, in one document."""


def refuse(node: Machine, text: str, *, because: tuple[str, ...]) -> None:
    """Offer a config; it is refused with an error that names all of this, and without a traceback."""
    path = node.folder / "offered.yaml"
    path.write_text(text)
    answer = node.client.run("apply-config", "--file", str(path), insecure=True, check=False)
    assert answer.code, f"a wrong config was taken:\n{text}"
    missing = [word for word in because if word not in answer.stderr]
    assert not missing, f"the refusal does not name {missing}:\n{answer.stderr}"
    assert "Traceback" not in answer.stderr


def offer(cluster: Cluster, disk: str) -> str:
    """A good config, but for the disk."""
    return cluster.config(disk=disk).read_text()


def test(world: World) -> None:
    node = world["node"]
    cluster = world.cluster()

    world.section("the config's URL leads nowhere: it is named, and the machine can be configured by hand")
    node.start()
    node.wait_for_console_text(BROKEN_URL)
    node.wait_for_api(insecure=True)
    node.talosctl("get", "disks", insecure=True)

    world.section("configs with mistakes, all of them listed at once")
    refuse(node, MISTAKES, because=("overlord", "certSANs", "mtu", "colour"))

    world.section("disks that can't be used")
    refuse(node, offer(cluster, SMALL), because=(SMALL, "small"))
    refuse(node, offer(cluster, "/dev/sdz"), because=("/dev/sdz", "serial large"))

    world.section("the plan for a disk with large sectors, and its installation")
    good = cluster.config(disk=LARGE)
    argv = ("apply-config", "--file", str(good))
    plan = node.client.run(*argv, "--dry-run", insecure=True)
    assert LARGE in plan.stdout + plan.stderr
    node.talosctl(*argv, insecure=True)
    node.client.talosconfig = cluster.talosconfig
    node.wait_for_reset()
    node.wait_for_api()
    node.wait_until("the volumes are ready", lambda: check_volumes(node))
