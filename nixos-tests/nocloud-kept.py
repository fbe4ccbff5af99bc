"""A machine with its config in STATE has its seed's name and network at each boot, and without it, too."""

from dataclasses import replace

from driver.client import at
from driver.machine import Machine
from driver.saved import restore
from driver.scenarios import INSTALLED, UPGRADED, install_new, wait_for_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "base-installed")
NODES = {"node": replace(UPGRADED, lan=True)}
CARDS = ("52:54:00:12:00:01", "52:54:00:12:01:01")
"""The first one leads to the test."""
NETWORK = f"""\
version: 2
ethernets:
  outside: {{match: {{macaddress: "{CARDS[0]}"}}, dhcp4: true}}
  inside: {{match: {{macaddress: "{CARDS[1]}"}}, addresses: [10.77.0.5/24]}}
"""


def check(node: Machine) -> None:
    """Assert that the machine has what the seed gives it."""
    addresses = {str(at(found, "metadata.id")) for found in node.get("addresses")}
    assert any(address.endswith("/10.77.0.5/24") for address in addresses), addresses
    (metadata,) = node.get("platformmetadata")
    assert at(metadata, "spec.platform") == "nocloud", metadata
    assert at(metadata, "spec.hostname") == "from-the-seed", metadata
    assert at(metadata, "spec.instanceId") == "i-1", metadata
    (name,) = node.get("hostnamestatus")
    assert at(name, "spec.hostname") == "from-the-seed", name


def test(world: World) -> None:
    node, is_restored = world["node"], restore(world, INSTALLED)
    cluster = world.cluster()
    if not is_restored:
        install_new(node, cluster, world.releases())
    node.client.talosconfig = cluster.talosconfig
    machine = replace(
        node.node,
        hands_over_kernel=False,
        without=("talos.platform=metal",),
        arguments=("talos.platform=nocloud",),
    )

    world.section("an installed machine with a seed")
    meta_data = "instance-id: i-1\nlocal-hostname: from-the-seed\n"
    node.cdrom = world.iso("cidata", **{"meta-data": meta_data, "network-config": NETWORK})
    node.start(node=machine)
    wait_for_installed(node)
    node.wait_until("name and network of the seed", lambda: check(node))
    node.wait_until(
        "they are kept",
        lambda: node.talosctl("list", "/system/state/platform-network.yaml"),
    )
    node.crash()

    world.section("the seed is detached")
    node.cdrom = None
    node.start(node=machine)
    wait_for_installed(node)
    node.wait_until("name and network of the boot before", lambda: check(node))
