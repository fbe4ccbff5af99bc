"""networkd's controllers in a network of their own, beside a machine that runs dnsmasq."""

import subprocess
from ipaddress import ip_interface

import pytest
import trio
from tests.harness.dnsmasq import run_dnsmasq
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import Peer
from tests.unit.networkd.kernel_node import node_on

from talos.api.definitions import enums_pb2
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.networkd.spec_makers import make_address
from talos.process.run import Daemon
from talos.resource import ids, kinds
from talos.resource.changes import put

pytestmark = pytest.mark.root

CONFIG = """\
version: v1alpha1
machine: {type: worker}
---
apiVersion: v1alpha1
kind: DHCPv4Config
name: eth0
---
apiVersion: v1alpha1
kind: DHCPv6Config
name: eth0
"""
SERVER = (
    "--port=0", "--interface=far", "--except-interface=lo", "--bind-interfaces",
    "--dhcp-range=10.77.0.10,10.77.0.20,255.255.255.0,2m",
    "--dhcp-range=fd77::100,fd77::1ff,64,10m", "--enable-ra",
    "--dhcp-option=option6:dns-server,[fd77::53]", "--dhcp-option=option6:domain-search,six.example",
    "--dhcp-option=option6:ntp-server,[fd77::123]",
    "--dhcp-option=option:dns-server,10.77.0.53", "--dhcp-option=option:mtu,1400",
)  # fmt: skip

STATIC = """\
version: v1alpha1
machine: {type: worker}
---
apiVersion: v1alpha1
kind: LinkConfig
name: eth0
addresses: [{address: 10.77.0.2/24}]
"""
STALE = ["ip", "neigh", "replace", "10.77.0.100", "lladdr", "02:00:00:00:00:99", "dev", "far", "nud", "stale"]


def test_leases_of_both_versions_bring_what_the_server_sends_and_go_with_their_config() -> None:
    async def main(daemon: Daemon) -> None:
        peer = Peer()
        async with node_on(daemon, peer, "10.77.0.1/24", "fd77::1/64") as node:
            with run_dnsmasq(peer, *SERVER) as log:
                await node.configure(CONFIG)
                found = await node.wait_until(
                    lambda found: "eth0/10.77.0" in str(found) and "/128" in str(found)
                )
                leased = [name for name in found if name.startswith("eth0/fd77::1") and name.endswith("/128")]
                assert len(leased) == 1, f"{found}\n{log.read_text()}"
                resolvers = await node.wait(*ids.RESOLVER_STATUS, lambda spec: len(spec.dns_servers) == 2)
                assert list(resolvers.search_domains) == ["six.example"]
                times = await node.wait(*ids.TIME_SERVER_STATUS, lambda spec: "fd77::123" in spec.ntp_servers)
                assert times
                await node.wait(kinds.LINK_STATUS, "eth0", lambda spec: spec.mtu == 1400)
                # Rapid commit is for servers that want it; this one needs the whole exchange.
                assert "DHCPSOLICIT" in log.read_text()
                assert "DHCPREPLY" in log.read_text()
                await node.configure("version: v1alpha1\nmachine: {type: worker}\n")
                await node.wait_until(
                    lambda found: "eth0/10.77.0" not in str(found) and leased[0] not in found
                )
        peer.close()

    run_in_namespace(main)


def test_a_server_with_rapid_commit_answers_at_once() -> None:
    async def main(daemon: Daemon) -> None:
        peer = Peer()
        async with node_on(daemon, peer, "fd77::1/64") as node:
            with run_dnsmasq(peer, *SERVER, "--dhcp-rapid-commit") as log:
                await node.configure(CONFIG)
                await node.wait_until(lambda found: "eth0/fd77::1" in str(found))
                text = log.read_text()
                assert "rapid-commit" in text
                assert "DHCPADVERTISE" not in text, text
        peer.close()

    run_in_namespace(main)


def test_an_announced_address_reaches_the_neighbours_at_once() -> None:
    async def main(daemon: Daemon) -> None:
        peer = Peer()
        async with node_on(daemon, peer, "10.77.0.1/24") as node:
            await node.configure(STATIC)
            await node.wait(kinds.LINK_STATUS, "eth0", lambda spec: spec.link_state)
            # In the neighbour's table another machine has the address.
            peer.run(subprocess.run, STALE, check=True)
            spec = make_address("eth0", ip_interface("10.77.0.100/32"), enums_pb2.CONFIG_OPERATOR)
            spec.announce_with_arp = True
            spec_id = layered_id(enums_pb2.CONFIG_OPERATOR, "vip/eth0/10.77.0.100")
            await put(node.state, kinds.ADDRESS_SPEC, spec_id, spec, namespace=CONFIG_NAMESPACE)
            await node.wait_until(lambda found: "eth0/10.77.0.100/32" in found)
            hardware = (await node.state.get(kinds.LINK_STATUS, "eth0")).spec.hardware_addr.hex(":")
            while True:
                shown = peer.run(subprocess.check_output, ["ip", "neigh", "show", "10.77.0.100"])
                if hardware in shown.decode():
                    break
                await trio.lowlevel.checkpoint()
        peer.close()

    run_in_namespace(main)


def test_an_address_that_another_machine_has_is_declined() -> None:
    async def main(daemon: Daemon) -> None:
        peer = Peer()
        async with node_on(daemon, peer, "10.77.0.1/24") as node:
            # What the server is to give first, its own machine has: it answers for all of its addresses.
            peer.run(subprocess.run, ["ip", "address", "add", "10.77.0.10/32", "dev", "lo"], check=True)
            first = "--dhcp-range=10.77.0.10,10.77.0.11,255.255.255.0,2m"
            server = [argument for argument in SERVER if "10.77.0.20" not in argument]
            with run_dnsmasq(peer, *server, first, "--no-ping", "--dhcp-sequential-ip") as log:
                await node.configure(CONFIG)
                await node.wait_until(lambda found: "eth0/10.77.0.11/24" in found)
                assert "DHCPDECLINE(far) 10.77.0.10" in log.read_text()
                assert any("10.77.0.10 is declined" in line for line in node.lines)
        peer.close()

    run_in_namespace(main)


def test_an_address_of_dhcpv6_that_another_machine_has_is_declined() -> None:
    async def main(daemon: Daemon) -> None:
        peer = Peer()
        async with node_on(daemon, peer, "fd77::1/64", "fd77::100/128") as node:
            options = (*SERVER[:4], "--dhcp-range=fd77::100,fd77::100,64,10m")
            with run_dnsmasq(peer, *options) as log:
                await node.configure(CONFIG)
                await node.wait_until(lambda found: "eth0/fd77::100/128" in found)
                await node.wait_until(
                    lambda found: "eth0/fd77::100/128" not in found and "declined" in str(node.lines)
                )
                assert "DHCPDECLINE" in log.read_text()
        peer.close()

    run_in_namespace(main)
