"""Two machines behind address translation meet in KubeSpan, by which alone their etcd has two members."""

import json
from dataclasses import replace
from typing import Any

from driver.arguments import HOST
from driver.bootstrap import begin_etcd, check_etcd
from driver.client import Client, Document, at
from driver.clock import CLOCK
from driver.clusters import SLOW_MEMBERS
from driver.configs import Cluster
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import INSTALL_TIMEOUT, apply_config, wait_for_installed
from driver.world import World, free_port

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "images", "discovery")
ADDRESSES = {"one": "10.0.71.15", "two": "10.0.72.15"}
"""Each in a network of its own, in which no machine has the other's address."""
MOVED = "10.0.72.77"
"""Where the second machine is for a while."""
NODES = {
    name: Node(
        hands_over_kernel=True,
        memory=2048,
        network=("net=10.0.0.0/16", f"host={HOST}", "dns=10.0.2.3", f"dhcpstart={address}"),
        disks={"system": Disk(size="8G")},
    )
    for name, address in ADDRESSES.items()
}
KINDS = ("kubespanidentities", "kubespanpeerspecs", "kubespanpeerstatuses")
MEETING_TIMEOUT = 240
"""Seconds: three endpoints, each of which is tried until the next check of the peers."""
BACK_TIMEOUT = 300
"""Seconds from power on: a start, and a handshake."""
MOVE_TIMEOUT = 30
"""Seconds from a config with another address until the machine answers with that through the tunnel."""
ETCD_TIMEOUT = 400
"""Seconds for etcd: an image, and a second member."""

MESH = """\
apiVersion: v1alpha1
kind: KubeSpanConfig
enabled: true
mtu: 1380
---
apiVersion: v1alpha1
kind: TimeSyncConfig
enabled: false
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
MOVE = """\
apiVersion: v1alpha1
kind: LinkAliasConfig
name: lan
selector: {match: 'link.driver == "virtio_net"'}
---
apiVersion: v1alpha1
kind: LinkConfig
name: lan
addresses: [{address: MOVED/16}]
routes: [{gateway: HOST}]
"""
MOVE_BACK = """\
apiVersion: v1alpha1
kind: LinkConfig
name: lan
$patch: delete
"""
OFF = "apiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: false\n"


def only(machine: Machine, kind: str) -> Any:
    """The spec of the one resource of a kind."""
    found = machine.get(kind)
    assert len(found) == 1, f"{kind}: {found}"
    return found[0]["spec"]


def key(machine: Machine) -> str:
    """The public key that others have of the machine."""
    return str(only(machine, "kubespanidentities")["publicKey"])


def address(machine: Machine) -> str:
    """The machine's address in KubeSpan."""
    return str(only(machine, "kubespanidentities")["address"]).partition("/")[0]


def check_up(machine: Machine, peer: str) -> None:
    """Assert that a machine has the other one as its peer, and has heard from it."""
    [found] = machine.get("kubespanpeerstatuses")
    assert at(found, "metadata.id") == peer
    assert at(found, "spec.state") == "up", found


def through(machine: Machine, target: str) -> Client:
    """A client that calls another machine over this one's API."""
    client = Client(machine.client.program, machine.client.port, machine.folder, nodes=target)
    client.talosconfig = machine.client.talosconfig
    return client


def check_answers(machine: Machine, *targets: str) -> None:
    """Assert that other machines answer through this one, with more than a packet holds."""
    for target in targets:
        client = through(machine, target)
        machine.wait_until(
            f"{target} answers",
            lambda client=client: _assert(bool(client.run("read", "/proc/cpuinfo").stdout)),
        )


def check_moved(client: Client, place: str) -> None:
    """Assert that a machine answers, and has an address."""
    found = {str(at(item, "spec.address")).partition("/")[0] for item in client.get("addressstatuses")}
    assert place in found, found
    assert len(found & {MOVED, *ADDRESSES.values()}) == 1, found


def check_members(machine: Machine) -> None:
    """Assert that etcd is healthy and has both machines as voting members."""
    check_etcd(machine)
    rows = machine.client.run("etcd", "members").stdout.splitlines()[1:]
    assert len(rows) == len(ADDRESSES), rows
    assert all(row.split()[-1] == "false" for row in rows), f"a member is a learner: {rows}"


def links(machine: Machine) -> set[str]:
    return {str(at(link, "metadata.id")) for link in machine.get("linkstatuses")}


def check_gone(machine: Machine) -> None:
    """Assert that nothing of KubeSpan is left."""
    assert "kubespan" not in links(machine)
    left: list[Document] = [item for kind in (*KINDS, "nftableschain") for item in machine.get(kind)]
    assert not left, left


def make_patches(world: World) -> list[str]:
    """A config with etcd and nothing of Kubernetes, with KubeSpan, and where discovery and images are."""
    releases = world.releases()
    releases.offer_archives(world.assets.path("images"))
    etcd = json.dumps({"cluster": {"etcd": {"extraArgs": SLOW_MEMBERS}}})
    return [etcd, releases.patch, MESH.replace("DISCOVERY", world.discovery)]


def start_all(world: World, cluster: Cluster, port: int) -> None:
    """Install both machines; the first one's port of KubeSpan leads to it from outside."""
    one, two = world["one"], world["two"]
    forward = f"hostfwd=udp:127.0.0.1:{port}-:51820"
    one.start(node=replace(one.node, network=(*one.node.network, forward)))
    two.start()
    patches = make_patches(world)
    extra = FORWARDED.replace("HOST", HOST).replace("PORT", str(port))
    for machine, more in ((one, [extra]), (two, [])):
        machine.wait_for_api(insecure=True)
        apply_config(machine, cluster, *patches, *more)
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

    world.section("the second machine gets another address: the tunnel follows it, and back")
    inside = through(one, address(two))
    move = MOVE.replace("MOVED", MOVED).replace("HOST", HOST)
    patch = ("patch", "machineconfig", "--mode", "no-reboot", "--patch")
    inside.run(*patch, move)
    began = CLOCK.now()
    one.wait_until("it answers from its new place", lambda: check_moved(inside, MOVED), MOVE_TIMEOUT)
    world.show(f"it was back after {CLOCK.now() - began:.1f} s")
    check_answers(one, MOVED)
    inside.run(*patch, MOVE_BACK)
    one.wait_until("it answers from where it was", lambda: check_moved(inside, ADDRESSES["two"]))
    check_answers(two, address(one), ADDRESSES["one"])

    world.section("etcd: the second member joins through the tunnel")
    one.wait_until("etcd begins", lambda: begin_etcd(one), ETCD_TIMEOUT)
    for machine in (one, two):
        machine.wait_until("both are members", lambda machine=machine: check_members(machine), ETCD_TIMEOUT)

    world.section("a power cut: what is left answers, keys and address stay, and the peers meet again")
    before = address(two)
    two.crash()
    one.talosctl("version")
    two.start()
    wait_for_installed(two)
    two.wait_until("the identity", lambda: _assert(key(two) == keys[1]))
    assert address(two) == before
    two.wait_until("the peer is up", lambda: check_up(two, keys[0]), BACK_TIMEOUT)
    check_answers(one, before, ADDRESSES["two"])
    two.wait_until("both are members", lambda: check_members(two), ETCD_TIMEOUT)

    world.section("switched off: nothing of it is left")
    one.talosctl("patch", "machineconfig", "--mode", "no-reboot", "--patch", OFF)
    one.wait_until("KubeSpan is off", lambda: check_gone(one))


def _assert(value: bool) -> None:
    assert value
