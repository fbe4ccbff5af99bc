"""Two machines with links of every kind: bonds, VLANs, VRF, WireGuard, bridge, dummy; and the firewall."""

import re
import time
from collections.abc import Callable
from typing import Any

from driver.client import at
from driver.machine import Machine
from driver.node import Node
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline")
NODES = {"one": Node(lan=True, memory=1280), "two": Node(lan=True, memory=1280)}
LAN = "enp0s4"
"""The card on the network that the machines share."""
IDLE_DURATION, MAX_IDLE_SHARE = 10.0, 0.05  # seconds
"""An emulated processor takes 20 times as long; calls of the node while it is watched are among it."""
NO_DISK = "sequence install: did not end well .*no disk matches"
KEYS = {
    "one": ("YCmmKPQTPPGiTi3w4eTD+cBzPTOTUg3pdO4ERlDgDWs=", "vCciBo2XSigSQtRbo66UZkwLO2wnCuifIgw7qmHxyBg="),
    "two": ("KDWFbAm0YeoMTmkVGl6J0ohq4vVCOgHkH6FJ4AwaXXY=", "N/yJcvUdPjUSyCRxrW1/1Q82DECFWXWjn4V9iAuNN1Q="),
}
"""Private and public keys of the tunnel's ends, made for this test."""

COMMON = """\
apiVersion: v1alpha1
kind: LinkAliasConfig
name: lan
selector: {match: 'glob("52:54:00:12:01:*", mac(link.permanent_addr)) && link.driver == "virtio_net"'}
---
apiVersion: v1alpha1
kind: EthernetConfig
name: lan
features: {tx-tcp-segmentation: false}
rings: {rx: 128}
---
apiVersion: v1alpha1
kind: VLANConfig
name: storage
vlanID: 20
parent: bond0
mtu: 1460
addresses: [{address: 10.20.0.@/24}]
---
apiVersion: v1alpha1
kind: VLANConfig
name: tenant
vlanID: 30
vlanMode: 802.1ad
parent: bond0
addresses: [{address: 10.30.0.@/24}]
routes: [{destination: 10.31.0.0/16, gateway: 10.30.0.254, table: "100"}]
---
apiVersion: v1alpha1
kind: VRFConfig
name: vrf-tenant
table: "100"
links: [tenant]
---
apiVersion: v1alpha1
kind: DummyLinkConfig
name: dummy7
multicast: true
addresses: [{address: 10.50.0.@/32}]
---
apiVersion: v1alpha1
kind: DummyLinkConfig
name: dummy8
---
apiVersion: v1alpha1
kind: BridgeConfig
name: br7
links: [dummy8]
stp: {enabled: true}
vlan: {filtering: true}
"""
BOND = """
---
apiVersion: v1alpha1
kind: BondConfig
name: bond0
links: [lan]
"""
WIREGUARD = """
---
apiVersion: v1alpha1
kind: WireguardConfig
name: wg0
privateKey: PRIVATE
listenPort: 51820
peers:
- publicKey: PUBLIC
  endpoint: 10.20.0.@:51820
  persistentKeepaliveInterval: 25s
  allowedIPs: [10.40.0.0/24]
addresses: [{address: 10.40.0.#/24}]
"""
FIREWALL = """
---
apiVersion: v1alpha1
kind: NetworkDefaultActionConfig
ingress: block
---
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: api
portSelector: {ports: [50000], protocol: tcp}
ingress: [{subnet: 10.0.2.0/24}, {subnet: 10.40.0.0/24}]
---
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: tunnel
portSelector: {ports: [51820], protocol: udp}
ingress: [{subnet: 10.20.0.0/24}]
"""
"""The API is open to the tunnel, not to the VLAN below it."""

FIRST_BOND = "bondMode: active-backup\nmiimon: 100\n"
OTHER_BOND = "bondMode: balance-rr\nmiimon: 100\npacketsPerSlave: 5\nuseCarrier: true\n"
"""bond.py has the others, and every option."""

TRACKED = "/proc/sys/net/netfilter/nf_conntrack_count"
"""How many connections the kernel tracks, the test's own among them: none before there is a firewall."""


def make_patch(own: int, *, bond: str = FIRST_BOND, firewall: str = "") -> str:
    """The documents of one of the machines; the other one has the mirrored addresses."""
    names = ("one", "two") if own == 1 else ("two", "one")
    tunnel = WIREGUARD.replace("PRIVATE", KEYS[names[0]][0]).replace("PUBLIC", KEYS[names[1]][1])
    tunnel = tunnel.replace("@", str(3 - own)).replace("#", str(own))
    return COMMON.replace("@", str(own)) + BOND + bond + tunnel + firewall


def status(machine: Machine, name: str) -> dict[str, Any]:
    [found] = machine.get("linkstatuses", name)
    spec: Any = found["spec"]
    return spec


def has(machine: Machine, name: str, **expected: Any) -> Callable[[], None]:
    """A check that a link's status has these values, by their paths with ``__`` for a dot."""

    def check() -> None:
        spec = status(machine, name)
        for path, value in expected.items():
            found = at({"spec": spec}, ".".join(("spec", *path.split("__"))))
            assert found == value, f"{name}: {path} is {found!r} instead of {value!r}: {spec}"

    return check


def reaches(machine: Machine, address: str) -> bool:
    """Whether the API of another machine answers, called through this one."""
    return machine.talosctl("--nodes", address, "version", "--short", check=False, seconds=15).code == 0


def apply(machine: Machine, cluster: Any, patch: str) -> None:
    """Give the machine another config, without a reboot."""
    machine.talosctl("apply-config", "--mode", "no-reboot", "--file", str(cluster.config(patch)))


def check_links(one: Machine) -> None:
    one.wait_until("the alias", has(one, LAN, alias="lan", driver="virtio_net", pciID="1AF4:1000"))
    one.wait_until("the bond", has(one, "bond0", kind="bond", bondMaster__mode="active-backup"))
    one.wait_until("its port", has(one, LAN, slaveKind="bond"))
    one.wait_until("a VLAN", has(one, "storage", mtu=1460, vlan__vlanID=20, vlan__vlanProtocol="802.1q"))
    one.wait_until("a service VLAN", has(one, "tenant", slaveKind="vrf", vlan__vlanProtocol="802.1ad"))
    one.wait_until("the VRF", has(one, "vrf-tenant", kind="vrf", vrfMaster__table="100"))
    stp = {"bridgeMaster__stp__enabled": True, "bridgeMaster__vlan__filteringEnabled": True}
    one.wait_until("the bridge", has(one, "br7", **stp))
    one.wait_until("a dummy", has(one, "dummy7", kind="dummy", operationalState="unknown"))
    one.wait_until("the tunnel", has(one, "wg0", kind="wireguard", wireguard__publicKey=KEYS["one"][1]))
    assert "privateKey" not in status(one, "wg0")["wireguard"]
    one.wait_until("the card's settings", lambda: check_card(one))

    def check_routes() -> None:
        routes = {str(at(route, "metadata.id")) for route in one.get("routes")}
        assert any(re.search(r"^100/.*10\.31\.0\.0/16", route) for route in routes), routes

    one.wait_until("a route in the VRF's table", check_routes)


def check_card(machine: Machine) -> None:
    [ethernet] = machine.get("ethernetstatuses", LAN)
    spec: Any = ethernet["spec"]
    features = {str(item["name"]): str(item["status"]) for item in spec["features"]}
    assert features["tx-tcp-segmentation"].startswith("off"), features["tx-tcp-segmentation"]
    assert spec["rings"]["rx"] == 128, spec["rings"]


def check_rest(machine: Machine) -> None:
    """For a while nothing is written and networkd uses no processor, though it has links of every kind."""
    before, used = snapshot(machine), processor_seconds(machine)
    time.sleep(IDLE_DURATION)
    assert snapshot(machine) == before, "something is written though nothing happens"
    share = (processor_seconds(machine) - used) / IDLE_DURATION
    assert share < MAX_IDLE_SHARE, f"networkd takes {share:.1%} of an emulated processor"


def snapshot(machine: Machine) -> set[tuple[str, str]]:
    """Links, addresses and routes with their versions, and networkd's log."""
    found = {("log", machine.client.run("logs", "networkd").stdout)}
    for kind in ("linkstatuses", "addressstatuses", "routestatuses"):
        for item in machine.get(kind):
            found.add((str(at(item, "metadata.id")), str(at(item, "metadata.version"))))
    return found


def processor_seconds(machine: Machine) -> float:
    """What networkd has used since its start."""
    [line] = [line for line in machine.client.run("processes").stdout.splitlines() if "networkd" in line]
    times = re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", line)
    return float(times[0])


def test(world: World) -> None:
    one, two = world["one"], world["two"]
    with one.console.expect(NO_DISK), two.console.expect(NO_DISK):
        run(world, one, two)


def run(world: World, one: Machine, two: Machine) -> None:
    cluster = world.cluster()
    for own, machine in ((1, one), (2, two)):
        machine.client.talosconfig = cluster.talosconfig
        url = world.web.serve(f"/{own}.yaml", cluster.config(make_patch(own)).read_text())
        machine.start(node=Node(lan=True, memory=1280, arguments=(f"talos.config={url}",)))
    for machine in (one, two):
        machine.wait_for_console_text(NO_DISK)
        machine.wait_for_api()

    world.section("every kind of link is made, with its settings, and seen in its status")
    check_links(one)

    world.section("at rest")
    one.wait_until("networkd rests", lambda: check_rest(one), seconds=240)

    world.section("packets through bond, VLAN and tunnel")
    # Through the VLAN from the other side: one's own connection would outlive the firewall's coming.
    for machine, address in ((two, "10.20.0.1"), (one, "10.40.0.2")):
        machine.wait_until(f"{address} answers", lambda m=machine, a=address: _assert(reaches(m, a)))

    world.section("the firewall: the tunnel's packets come through, the VLAN's do not")
    apply(two, cluster, make_patch(2, firewall=FIREWALL))
    two.wait_until(
        "connections are tracked", lambda: _assert(int(two.client.run("read", TRACKED).stdout) > 0)
    )
    one.wait_until("10.20.0.2 is closed", lambda: _assert(not reaches(one, "10.20.0.2")))
    assert reaches(one, "10.40.0.2")
    chains = {str(at(chain, "metadata.id")) for chain in two.get("nftableschain")}
    assert chains == {"ingress", "prerouting"}, chains

    world.section("a bond in another mode, changed in place: its address and its index stay")
    index = status(one, "bond0")["index"]
    apply(one, cluster, make_patch(1, bond=OTHER_BOND))
    one.wait_until(
        "the mode", has(one, "bond0", bondMaster__mode="balance-rr", bondMaster__packetsPerSlave=5)
    )
    one.wait_until("its port is back", has(one, LAN, slaveKind="bond"))
    assert status(one, "bond0")["index"] == index
    apply(one, cluster, make_patch(1))
    one.wait_until("the other machine answers again", lambda: _assert(reaches(one, "10.40.0.2")))

    world.section("what goes from the config goes from the kernel")
    apply(one, cluster, f"apiVersion: v1alpha1\nkind: LinkConfig\nname: {LAN}\nup: true\n")

    def check_removed() -> None:
        names = {str(at(link, "metadata.id")) for link in one.get("linkstatuses")}
        assert not names & {"storage", "tenant", "vrf-tenant", "dummy7", "dummy8", "br7", "wg0"}, names

    one.wait_until("the links are removed", check_removed)


def _assert(value: bool) -> None:
    assert value
