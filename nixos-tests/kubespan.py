"""Two machines in networks that can't reach each other, each behind address translation, meet in KubeSpan."""

from dataclasses import replace
from typing import Any

from driver.arguments import HOST
from driver.client import Document, at
from driver.configs import Cluster
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import INSTALL_TIMEOUT, apply_config, wait_for_installed
from driver.world import World, free_port

ASSETS = ("kernel", "initramfs", "cmdline", "discovery")
ADDRESSES = {"one": "10.0.71.15", "two": "10.0.72.15"}
"""Each in a network of its own, in which no machine has the other's address."""
NODES = {
    name: Node(
        hands_over_kernel=True,
        network=("net=10.0.0.0/16", f"host={HOST}", "dns=10.0.2.3", f"dhcpstart={address}"),
        disks={"system": Disk(size="8G")},
    )
    for name, address in ADDRESSES.items()
}
KINDS = ("kubespanidentities", "kubespanpeerspecs", "kubespanpeerstatuses")
MEETING_TIMEOUT = 240
"""Seconds: three endpoints, each of which is tried until the next look at the peers."""
BACK_TIMEOUT = 300
"""Seconds from power on: a start, and a handshake."""

MESH = """\
apiVersion: v1alpha1
kind: KubeSpanConfig
enabled: true
mtu: 1380
---
apiVersion: v1alpha1
kind: DiscoveryServiceConfig
name: default
endpoint: DISCOVERY
"""
FORWARDED = """
---
apiVersion: v1alpha1
kind: KubeSpanEndpointsConfig
extraAnnouncedEndpoints: ["HOST:PORT"]
"""
OFF = "apiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: false\n"


def only(machine: Machine, kind: str) -> Any:
    """The spec of the one resource of a kind."""
    found = machine.get(kind)
    assert len(found) == 1, f"{kind}: {found}"
    return found[0]["spec"]


def key(machine: Machine) -> str:
    """The public key by which others know the machine."""
    return str(only(machine, "kubespanidentities")["publicKey"])


def address(machine: Machine) -> str:
    """The machine's address in KubeSpan."""
    return str(only(machine, "kubespanidentities")["address"]).partition("/")[0]


def check_up(machine: Machine, peer: str) -> None:
    """Assert that a machine has the other one as its peer, and has heard from it."""
    [found] = machine.get("kubespanpeerstatuses")
    assert at(found, "metadata.id") == peer
    assert at(found, "spec.state") == "up", found


def ask(machine: Machine, target: str) -> str:
    """What another machine answers when it is asked through this one: more than a packet holds."""
    return machine.client.run("--nodes", target, "read", "/proc/cpuinfo", seconds=90).stdout


def check_answers(machine: Machine, *targets: str) -> None:
    for target in targets:
        machine.wait_until(f"{target} answers", lambda text=target: _assert(bool(ask(machine, text))))


def links(machine: Machine) -> set[str]:
    return {str(at(link, "metadata.id")) for link in machine.get("linkstatuses")}


def check_gone(machine: Machine) -> None:
    """Assert that nothing of KubeSpan is left."""
    assert "kubespan" not in links(machine)
    left: list[Document] = [item for kind in (*KINDS, "nftableschain") for item in machine.get(kind)]
    assert not left, left


def start_all(world: World, cluster: Cluster, port: int) -> None:
    """Install both machines; the first one's port of KubeSpan leads to it from outside."""
    one, two = world["one"], world["two"]
    forward = f"hostfwd=udp:127.0.0.1:{port}-:51820"
    one.start(node=replace(one.node, network=(*one.node.network, forward)))
    two.start()
    mesh = MESH.replace("DISCOVERY", world.discovery)
    extra = FORWARDED.replace("HOST", HOST).replace("PORT", str(port))
    for machine, patch in ((one, mesh + extra), (two, mesh)):
        machine.wait_for_api(insecure=True)
        apply_config(machine, cluster, patch)
    for machine in (one, two):
        machine.wait_for_reset(INSTALL_TIMEOUT)
    for machine in (one, two):
        wait_for_installed(machine)


def test(world: World) -> None:
    one, two = world["one"], world["two"]
    port = free_port()
    start_all(world, world.cluster(), port)

    world.section("they find each other's keys, and the one way that leads from one to the other")
    for machine in (one, two):
        machine.wait_until("the identity", lambda machine=machine: key(machine))
    keys = key(one), key(two)
    for machine, peer in ((one, keys[1]), (two, keys[0])):
        machine.wait_until(
            "the peer is up", lambda machine=machine, peer=peer: check_up(machine, peer), MEETING_TIMEOUT
        )
    assert at(two.get("kubespanpeerstatuses")[0], "spec.lastUsedEndpoint") == f"{HOST}:{port}"

    world.section("calls through the tunnel: to the address in KubeSpan, and to that of the other network")
    check_answers(one, address(two), ADDRESSES["two"])
    check_answers(two, address(one), ADDRESSES["one"])
    [link] = one.get("linkstatuses", "kubespan")
    assert at(link, "spec.mtu") == 1380
    assert "privateKey" not in str(link), "a status shows no secret"

    world.section("a power cut: keys and address stay, and the peers meet again")
    before = address(two)
    two.crash()
    two.start()
    wait_for_installed(two)
    two.wait_until("the identity", lambda: _assert(key(two) == keys[1]))
    assert address(two) == before
    two.wait_until("the peer is up", lambda: check_up(two, keys[0]), BACK_TIMEOUT)
    check_answers(one, before, ADDRESSES["two"])

    world.section("switched off: nothing of it is left")
    one.talosctl("patch", "machineconfig", "--mode", "no-reboot", "--patch", OFF)
    one.wait_until("KubeSpan is off", lambda: check_gone(one))


def _assert(value: bool) -> None:
    assert value
