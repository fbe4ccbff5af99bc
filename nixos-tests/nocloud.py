"""A machine of a cloud: config, name and network come from a nocloud seed on a volume."""

from driver.client import at
from driver.machine import Machine
from driver.node import Node
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
NODES = {
    "node": Node(
        lan=True, memory=1280, without=("talos.platform=metal",), arguments=("talos.platform=nocloud",)
    )
}
CARDS = ("52:54:00:12:00:01", "52:54:00:12:01:01")
"""The first one leads to the test."""
NO_DISK = "sequence install: did not end well .*no disk matches"
NETWORK = f"""\
version: 2
ethernets:
  outside:
    match: {{macaddress: "{CARDS[0]}"}}
    dhcp4: true
  inside:
    match: {{macaddress: "{CARDS[1]}"}}
    mtu: 1400
    addresses: [10.77.0.5/24, "fd77::5/64"]
    nameservers: {{addresses: [10.77.0.53], search: [cloud.example]}}
    routes: [{{to: 10.78.0.0/16, via: 10.77.0.1, metric: 7}}]
vlans:
  v7: {{id: 7, link: inside, addresses: [10.79.0.5/24]}}
"""


def ids_of(node: Machine, kind: str) -> set[str]:
    """The ids of a kind's resources."""
    return {str(at(found, "metadata.id")) for found in node.get(kind)}


def check_network(node: Machine) -> None:
    addresses, links = ids_of(node, "addresses"), ids_of(node, "links")
    wanted = {"enp0s4/10.77.0.5/24", "enp0s4/fd77::5/64", "v7/10.79.0.5/24"}
    assert wanted <= addresses, addresses
    assert any(address.startswith("enp0s3/10.0.2.") for address in addresses), addresses
    assert "v7" in links, links
    [link] = node.get("links", "enp0s4")
    assert at(link, "spec.mtu") == 1400
    assert "inet4/10.77.0.1/10.78.0.0/16/7" in ids_of(node, "routes"), ids_of(node, "routes")
    # Those of DHCP, a higher layer, are in effect.
    resolvers = node.get("resolverspecs", "--namespace", "network-config")
    assert "10.77.0.53" in str(resolvers), resolvers


def test(world: World) -> None:
    node = world["node"]
    with node.console.expect(NO_DISK):
        run(world, node)


def run(world: World, node: Machine) -> None:
    cluster = world.cluster()
    node.client.talosconfig = cluster.talosconfig
    seed = {
        "user-data": cluster.config().read_text(),
        "meta-data": "instance-id: i-1\nlocal-hostname: from-the-seed\n",
        "network-config": NETWORK,
    }
    node.cdrom = world.iso("cidata", **seed)
    node.start()

    world.section("the seed's machine config is taken")
    node.wait_for_console_text(NO_DISK)
    node.wait_for_api()

    world.section("addresses, a VLAN, routes and resolvers of network-config, and the name of meta-data")
    node.wait_until("the network of the seed", lambda: check_network(node))
    names = node.get("hostnamespecs", "--namespace", "network-config")
    assert "from-the-seed" in str(names), names
