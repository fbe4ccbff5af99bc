"""Three machines behind address translation meet in KubeSpan, by which alone their etcd has three members.

A router of the host's own is before each, QEMU's user network. A port leads through the first one's; the
others meet where the first has seen them, as these routers take packets from everywhere.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from driver.arguments import HOST
from driver.bootstrap import begin_etcd, check_etcd
from driver.client import Client, at
from driver.clock import CLOCK
from driver.clusters import SLOW_MEMBERS
from driver.kubespan import (
    address,
    check_gone,
    make_relayed_client,
    peers,
    read_public_key,
    wait_for_answers,
    wait_until_up,
    wait_while_answered,
)
from driver.machine import Machine
from driver.node import Disk, Node
from driver.scenarios import INSTALL_TIMEOUT, apply_config, patch, wait_for_installed
from driver.world import World, free_port

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "images", "discovery")
ADDRESSES = {"one": "10.0.71.15", "two": "10.0.72.15", "three": "10.0.73.15"}
"""Each in a network of its own, in which no machine has another's address."""
MOVED = "10.0.72.77"
"""Where the second machine is for a while."""
NODES = {
    name: Node(
        hands_over_kernel=True,
        memory=2048,
        network=("net=10.0.0.0/16", f"host={HOST}", "dns=10.0.2.3", f"dhcpstart={place}"),
        disks={"system": Disk(size="8G")},
    )
    for name, place in ADDRESSES.items()
}
MEETING_TIMEOUT = 400
"""Seconds: endpoints are tried one after the other, and those of the others come by way of the first."""
MOVE_TIMEOUT = 30
"""Seconds from a change of a machine's place until it is reached there."""
OUTAGE = 330
"""Seconds without a peer: longer than the 275 after which it is down, and the next check of the peers."""
ETCD_TIMEOUT = 400
"""Seconds for etcd: an image, and more members."""

MESH = """\
apiVersion: v1alpha1
kind: KubeSpanConfig
enabled: true
harvestExtraEndpoints: true
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
---
apiVersion: v1alpha1
kind: NetworkDefaultActionConfig
ingress: block
---
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: test
portSelector: {ports: [50000], protocol: tcp}
ingress: [{subnet: HOST/32}]
---
apiVersion: v1alpha1
kind: NetworkRuleConfig
name: kubespan
portSelector: {ports: [51820], protocol: udp}
ingress: [{subnet: 0.0.0.0/0}]
"""
"""The API is open to the test, and all else to what comes out of the tunnel alone."""
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


def check_seen(machine: Machine, peer: str, place: str) -> None:
    """Assert that a peer is reached at an endpoint that begins so."""
    found = peers(machine)[peer]
    assert str(found["endpoint"]).startswith(place), found


def check_moved(client: Client, place: str) -> None:
    """Assert that a machine answers, and has an address."""
    found = {str(at(item, "spec.address")).partition("/")[0] for item in client.get("addressstatuses")}
    assert place in found, found
    assert len(found & {MOVED, *ADDRESSES.values()}) == 1, found


def check_members(machine: Machine) -> None:
    """Assert that etcd is healthy and has all machines as voting members."""
    check_etcd(machine)
    rows = machine.client.run("etcd", "members").stdout.splitlines()[1:]
    assert len(rows) == len(ADDRESSES), rows
    assert all(row.split()[-1] == "false" for row in rows), f"a member is a learner: {rows}"


def wait_for_members(machines: Sequence[Machine]) -> None:
    """Wait until each machine has all as members."""
    for machine in machines:
        machine.wait_until("all are members", lambda machine=machine: check_members(machine), ETCD_TIMEOUT)


def start_all(world: World, machines: Sequence[Machine], port: int) -> None:
    """Install the machines; the first one's port of KubeSpan leads to it from outside."""
    one, *others = machines
    forward = f"hostfwd=udp:127.0.0.1:{port}-:51820"
    one.start(node=replace(one.node, network=(*one.node.network, forward)))
    for machine in others:
        machine.start()
    releases, cluster = world.releases(), world.cluster()
    releases.offer_archives(world.assets.path("images"))
    etcd = json.dumps({"cluster": {"etcd": {"extraArgs": SLOW_MEMBERS}}})
    patches = [etcd, releases.patch, MESH.replace("DISCOVERY", world.discovery).replace("HOST", HOST)]
    extra = FORWARDED.replace("HOST", HOST).replace("PORT", str(port))
    for machine in machines:
        machine.wait_for_api(insecure=True)
        apply_config(machine, cluster, *patches, *([extra] if machine is one else []))
    for machine in machines:
        machine.wait_for_reset(INSTALL_TIMEOUT)
    for machine in machines:
        wait_for_installed(machine)


def move(world: World, one: Machine, two: Machine, three: Machine) -> None:
    """Give the second machine another address, and the one it had."""
    target = address(two)
    inside = make_relayed_client(one, target)
    patch_argv = ("patch", "machineconfig", "--mode", "no-reboot", "--patch")
    inside.run(*patch_argv, MOVE.replace("MOVED", MOVED).replace("HOST", HOST))
    began = CLOCK.now()
    one.wait_until("it answers from its new place", lambda: check_moved(inside, MOVED), MOVE_TIMEOUT)
    # Its own port of the host leads to the address that it has no more.
    wait_for_answers(three, target, seconds=MOVE_TIMEOUT)
    world.show(f"it was back after {CLOCK.now() - began:.1f} s")
    wait_for_answers(one, MOVED)
    inside.run(*patch_argv, MOVE_BACK)
    one.wait_until("it answers from where it was", lambda: check_moved(inside, ADDRESSES["two"]))
    wait_for_answers(two, address(one), ADDRESSES["one"])


def forward_anew(world: World, machines: Sequence[Machine], old: int, new: int) -> None:
    """Have another port of the host lead to the first machine, as a router does that has another address."""
    one, *others = machines
    own = read_public_key(one)
    for command in (f"hostfwd_add n0 udp:127.0.0.1:{new}-:51820", f"hostfwd_remove n0 udp:127.0.0.1:{old}"):
        one.monitor.execute("human-monitor-command", command_line=command)
    began = CLOCK.now()
    for machine in others:
        wait_for_answers(machine, address(one), seconds=MOVE_TIMEOUT)
    world.show(f"it was back after {CLOCK.now() - began:.1f} s")
    for machine in others:
        machine.wait_until(
            "its place is shown", lambda machine=machine: check_seen(machine, own, f"{HOST}:{new}")
        )


def test(world: World) -> None:
    machines = one, two, three = world["one"], world["two"], world["three"]
    port = free_port()
    start_all(world, machines, port)

    world.section("all find each other's keys, and ways that lead from one to the other")
    for machine in machines:
        machine.wait_until("the identity", lambda machine=machine: read_public_key(machine))
    keys = [read_public_key(machine) for machine in machines]
    wait_until_up(machines, keys, MEETING_TIMEOUT)
    check_seen(two, keys[0], f"{HOST}:{port}")
    check_seen(two, keys[2], f"{HOST}:")
    check_seen(three, keys[1], f"{HOST}:")

    world.section("calls through the tunnel: to addresses in KubeSpan, and to those of the other networks")
    for machine in machines:
        others = [other for other in machines if other is not machine]
        wait_for_answers(machine, *map(address, others), *(ADDRESSES[other.name] for other in others))
    [link] = one.get("linkstatuses", "kubespan")
    assert at(link, "spec.mtu") == 1380
    assert "privateKey" not in str(link), "a status shows no secret"

    world.section("the second machine gets another address: the tunnel follows it, and back")
    move(world, one, two, three)

    world.section("another port leads to the first machine: the tunnel follows it")
    forward_anew(world, machines, port, free_port())

    world.section("etcd: the others join through the tunnel")
    one.wait_until("etcd begins", lambda: begin_etcd(one), ETCD_TIMEOUT)
    wait_for_members(machines)

    world.section("a power cut, and a peer that is off for long: what is left is reached all the time")
    before = address(three)
    three.crash()
    clients = [
        one.client,
        two.client,
        make_relayed_client(one, address(two)),
        make_relayed_client(two, ADDRESSES["one"]),
    ]
    wait_while_answered(one, clients, OUTAGE)
    for machine in (one, two):
        assert peers(machine)[keys[2]]["state"] != "up", "it is silent"
        check_etcd(machine)

    world.section("it comes back: keys and address stay, and the peers meet again")
    three.start()
    wait_for_installed(three)
    three.wait_until("the identity", lambda: read_public_key(three))
    assert (read_public_key(three), address(three)) == (keys[2], before)
    wait_until_up(machines, keys, MEETING_TIMEOUT)
    wait_for_answers(two, before, ADDRESSES["three"])
    wait_for_members(machines)

    world.section("switched off: nothing of it is left")
    patch(one, OFF)
    one.wait_until("KubeSpan is off", lambda: check_gone(one))
