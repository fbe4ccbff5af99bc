"""What other programs and other machines change is repaired at once, or bounded."""

import socket
import struct
import subprocess
from ipaddress import ip_address, ip_network

import pytest
import trio
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import Peer
from tests.unit.networkd.kernel_node import Node, node_on

from talos.api.addresses import make_ip
from talos.api.definitions import enums_pb2
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.networkd.spec_makers import make_route
from talos.process.run import Daemon
from talos.resource import kinds
from talos.resource.addresses import route_spec_id
from talos.resource.changes import put
from talos.resource.state import NotFoundError
from talos.system.net.links import RTNH_F_ONLINK

pytestmark = pytest.mark.root

CONFIG = """\
version: v1alpha1
machine: {type: worker}
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth0
addresses: [{address: 10.77.0.2/24}]
routes: [{gateway: 10.77.0.1}, {destination: 10.98.0.0/16, gateway: 10.77.0.3, table: "100"}]
---
apiVersion: v1alpha1
kind: RoutingRuleConfig
name: "1000"
src: 10.0.0.0/8
table: "100"
"""
REPAIR_TIMEOUT = 60.0
"""Seconds, for a machine that others use, too: nothing is looked at anew without a change."""
DISTURBANCES = {
    "address": "address del 10.77.0.2/24 dev eth0",
    "route": "route del default",
    "route of another table": "route replace 10.98.0.0/16 via 10.77.0.9 table 100 metric 1024",
    "rule": "rule del priority 1000",
    "rule with another table": "rule add priority 1000 from 10.0.0.0/8 table 7 protocol static",
    "link": "link set eth0 down",
}
MAX_ADVERTISED = 20
"""Addresses of one link that come from routers: the kernel takes 16."""
FLOOD = 2000


def ip(*argv: str) -> str:
    return subprocess.check_output(["ip", *argv], text=True)


def check() -> str:
    """What the kernel has of the config."""
    shown = ("-4 -o address show dev eth0", "route show table all", "rule")
    return "\n".join(ip(*argv.split()) for argv in shown)


WANTED = (
    "inet 10.77.0.2/24", "default via 10.77.0.1 dev eth0", "10.98.0.0/16 via 10.77.0.3 dev eth0 table 100",
    "1000:\tfrom 10.0.0.0/8 lookup 100",
)  # fmt: skip


def is_configured() -> bool:
    found = check()
    return all(text in found for text in WANTED) and "via 10.77.0.9" not in found and "lookup 7" not in found


async def repaired(node: Node) -> None:
    """Wait for the config with the kernel's own notifications: networkd's copies are under test."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as raw:
        raw.setblocking(False)
        raw.bind((0, 0x1 | 0x10 | 0x40 | 0x80))
        with trio.move_on_after(REPAIR_TIMEOUT):
            while not is_configured():
                await trio.lowlevel.wait_readable(raw)
                raw.recv(65536)
    assert is_configured(), check() + "\n".join(node.lines)


def test_foreign_changes_are_repaired() -> None:
    async def main(daemon: Daemon) -> None:
        peer = Peer()
        async with node_on(daemon, peer, "10.77.0.1/24") as node:
            await node.configure(CONFIG)
            await repaired(node)
            for disturbance in DISTURBANCES.values():
                ip(*disturbance.split())
                await repaired(node)
        peer.close()

    run_in_namespace(main)


def test_a_route_can_have_several_gateways_and_one_outside_of_the_links_networks() -> None:
    async def main(daemon: Daemon) -> None:
        peer = Peer()
        async with node_on(daemon, peer, "10.77.0.1/24") as node:
            await node.configure(CONFIG)
            await repaired(node)
            network = ip_network("10.96.0.0/16")
            spec = make_route("", network, None, enums_pb2.CONFIG_PLATFORM)
            spec.scope = enums_pb2.SCOPE_GLOBAL
            for gateway, weight in (("10.77.0.5", 2), ("10.77.0.6", 1)):
                hop = make_ip(ip_address(gateway))
                spec.next_hops.add(gateway=hop, out_link_name="eth0", weight=weight)
            outside = make_route(
                "eth0", ip_network("10.95.0.0/16"), ip_address("192.0.2.1"), enums_pb2.CONFIG_PLATFORM
            )
            outside.flags = RTNH_F_ONLINK
            for item in (spec, outside):
                spec_id = layered_id(enums_pb2.CONFIG_PLATFORM, route_spec_id(item))
                await put(node.state, kinds.ROUTE_SPEC, spec_id, item, namespace=CONFIG_NAMESPACE)
            status = await node.wait(
                kinds.ROUTE_STATUS, "inet4//10.96.0.0/16/1024", lambda found: len(found.next_hops) > 1
            )
            assert [(hop.gateway.ip[3], hop.weight) for hop in status.next_hops] == [(5, 2), (6, 1)]
            await node.wait(kinds.ROUTE_STATUS, "inet4/192.0.2.1/10.95.0.0/16/1024", lambda _: True)
            changes = len([line for line in node.lines if "route inet4" in line])
            ip("route", "add", "10.94.0.0/16", "via", "10.77.0.7")
            await node.wait(kinds.ROUTE_STATUS, "inet4/10.77.0.7/10.94.0.0/16/0", lambda _: True)
            assert len([line for line in node.lines if "route inet4" in line]) == changes, "it is at rest"
        peer.close()

    run_in_namespace(main)


def flood() -> None:
    """Advertise as many routers' prefixes, each with a route of its own."""
    with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as raw:
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex("far"))
        for number in range(FLOOD):
            prefix = struct.pack("!HHHH8x", 0xFD00, 0x99, number, 0)
            option = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 0xFFFFFFFF, 0xFFFFFFFF, 0) + prefix
            raw.sendto(struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + option, ("ff02::1", 0))


def test_a_flood_of_router_advertisements_leaves_the_node_with_few_addresses_and_its_own() -> None:
    async def main(daemon: Daemon) -> None:
        peer = Peer()
        async with node_on(daemon, peer, "10.77.0.1/24", "fe80::1/64") as node:
            await node.configure(CONFIG)
            await repaired(node)
            await trio.to_thread.run_sync(peer.run, flood)
            # It works through all of it, and still repairs what belongs to it.
            await node.wait(kinds.ADDRESS_STATUS, "eth0/10.77.0.2/24", lambda _: True)
            ip(*DISTURBANCES["route"].split())
            await repaired(node)
            # The kernel notifies of them when it has found no duplicates.
            addresses = await node.wait_until(lambda found: "fd00:99:" in str(found))
            assert sum("fd00:99:" in name for name in addresses) <= MAX_ADVERTISED
            try:
                default = await node.state.get(kinds.NODE_ADDRESS, "default")
            except NotFoundError:
                raise AssertionError("no address") from None
            assert default.spec.addresses[0].ip == bytes([10, 77, 0, 2])
        peer.close()

    run_in_namespace(main)
