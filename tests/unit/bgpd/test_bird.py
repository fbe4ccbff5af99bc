"""Sessions with BIRD over cables: what each side has of the other's routes, and how a session ends."""

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_address

import pytest
import trio
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import Peer
from tests.unit.networkd.kernel_node import Node, node_on

from talos.api.definitions.enums_pb2 import BGP_SESSION_STATE_ACTIVE, BGP_SESSION_STATE_ESTABLISHED
from talos.api.definitions.network_pb2 import BGPPeerStatusSpec, RouteStatusSpec
from talos.bgpd.controllers.speakers import BGPController
from talos.process.run import Daemon
from talos.resource import kinds
from talos.resource.controller.runtime import run_controllers
from talos.system.logging import Log

from .bird import bird, router_advertisements

pytestmark = pytest.mark.root

LINKS = """\
apiVersion: v1alpha1
kind: LinkConfig
name: eth0
up: true
addresses: [{address: 10.7.0.1/24}, {address: 'fd07::1/64'}]
---
apiVersion: v1alpha1
kind: LinkConfig
name: lo
addresses: [{address: 192.0.2.7/32}, {address: '2001:db8:7::7/128'}]
---
"""
INSTANCE = """\
apiVersion: v1alpha1
kind: BGPInstanceConfig
name: fabric
localASN: 65001
advertise: [lo]
routeSource: 192.0.2.7
"""
NUMBERED = "neighbors: [{address: 10.7.0.254, peerASN: 65000, holdTime: 9s}]\n"
ROUTES = """\
protocol static s4 { ipv4; route 198.51.100.0/24 unreachable; }
protocol static s6 { ipv6; route 2001:db8:1::/48 unreachable; }
"""
CHANNELS = """\
  ipv4 { import all; export all; next hop self; };
  ipv6 { import all; export all; next hop self; };
"""
SESSION = f"""\
{ROUTES}
protocol bgp node {{
  local 10.7.0.254 as 65000;
  neighbor 10.7.0.1 as 65001;
{CHANNELS}
}}
"""
UNNUMBERED = f"""\
{ROUTES}
protocol bgp node {{
  local as 65000;
  neighbor range fe80::/10 as 65001;
  interface "far";
  dynamic name "node";
  ipv4 {{ import all; export all; next hop self; extended next hop on; }};
  ipv6 {{ import all; export all; next hop self; }};
}}
"""
ADDRESSES = ("10.7.0.254/24", "fd07::254/64")
IPV4, IPV6 = "198.51.100.0/24", "2001:db8:1::/48"
STATUS = "fabric/10.7.0.254"


@asynccontextmanager
async def speaker(daemon: Daemon, config: str, *addresses: str) -> AsyncGenerator[tuple[Node, Peer]]:
    """The node's network and its speaker, and the machine at the other end of its cable."""
    peer = Peer()
    try:
        async with node_on(daemon, peer, *addresses) as node, trio.open_nursery() as nursery:
            await node.configure(LINKS + config)
            controllers = [BGPController(Log(write=node.lines.append))]
            await nursery.start(run_controllers, node.state, controllers)
            yield node, peer
            nursery.cancel_scope.cancel()
    finally:
        peer.close()


async def established(node: Node, id: str = STATUS, *, received: int = 2) -> BGPPeerStatusSpec:
    def check(status: BGPPeerStatusSpec) -> bool:
        return status.state == BGP_SESSION_STATE_ESTABLISHED and status.received == received

    return await node.wait(kinds.BGP_PEER_STATUS, id, check)


async def list_routes(node: Node, destination: str) -> list[RouteStatusSpec]:
    """Routes to a network, by any gateway: BIRD names its link-local address once it has one."""
    routes = await node.state.list(kinds.ROUTE_STATUS)
    return [route.spec for route in routes if f"/{destination}/" in route.id]


async def routed(node: Node, destination: str, *, count: int = 1) -> list[RouteStatusSpec]:
    with trio.move_on_after(REAL_TIMEOUT):
        async with node.state.watch(kinds.ROUTE_STATUS) as changes:
            while True:
                found = await list_routes(node, destination)
                if len(found) == count:
                    return found
                await anext(changes)
    raise AssertionError(f"no {destination}\n" + "\n".join(node.lines))


def test_routes_go_both_ways_and_end_with_the_session() -> None:
    async def run(daemon: Daemon) -> None:
        async with speaker(daemon, INSTANCE + NUMBERED, *ADDRESSES) as (node, peer):
            async with bird(peer, SESSION) as other:
                status = await established(node)
                assert (status.accepted, status.advertised, status.peer_asn) == (2, 2, 65000)
                [route] = await routed(node, IPV4)
                assert route.source.ip == bytes([192, 0, 2, 7])
                await routed(node, IPV6)
                shown = await other.wait("show route all protocol node", lambda text: "2001:db8:7::7" in text)
                assert "192.0.2.7/32" in shown
                assert "BGP.as_path: 65001" in shown
            await routed(node, IPV4, count=0)
            await routed(node, IPV6, count=0)

    run_in_namespace(run)


def test_the_only_router_of_a_link_is_the_neighbour() -> None:
    async def run(daemon: Daemon) -> None:
        config = INSTANCE + "neighbors: [{link: eth0, peerASN: 65000}]\n"
        async with speaker(daemon, config) as (node, peer), bird(peer, UNNUMBERED) as other:
            with router_advertisements(peer):
                async with node.state.watch(kinds.BGP_PEER_STATUS) as changes:
                    while not await node.state.list(kinds.BGP_PEER_STATUS):
                        await anext(changes)
            [status] = await node.state.list(kinds.BGP_PEER_STATUS)
            await established(node, status.id)
            assert status.spec.peer.endswith("%eth0")
            for destination in (IPV4, IPV6):
                [route] = await routed(node, destination)
                assert (ip_address(route.gateway.ip).is_link_local, route.out_link_name) == (True, "eth0")
            await other.wait("show route", lambda text: "192.0.2.7/32" in text and "2001:db8:7::7" in text)

    run_in_namespace(run)


def test_a_peer_that_is_silent_is_gone_after_the_hold_time() -> None:
    async def run(daemon: Daemon) -> None:
        config = INSTANCE + NUMBERED.replace("9s", "3s")
        async with speaker(daemon, config, *ADDRESSES) as (node, peer), bird(peer, SESSION) as other:
            await established(node)
            await routed(node, IPV4)
            other.process.send_signal(signal.SIGSTOP)
            await routed(node, IPV4, count=0)
            assert "hold timer expired (sent)" in "\n".join(node.lines)

    run_in_namespace(run)


def test_a_peer_that_is_silent_is_gone_sooner_with_bfd() -> None:
    async def run(daemon: Daemon) -> None:
        timers = "bfd: {transmitInterval: 100ms, receiveInterval: 100ms, detectMultiplier: 3}"
        config = INSTANCE + f"neighbors: [{{address: 10.7.0.254, {timers}}}]\n"
        settings = SESSION.replace("as 65001;", "as 65001;\n  bfd on;") + (
            'protocol bfd { interface "far" { interval 100 ms; multiplier 3; }; }\n'
        )
        async with speaker(daemon, config, *ADDRESSES) as (node, peer), bird(peer, settings) as other:
            await established(node)
            await node.wait(kinds.BGP_PEER_STATUS, STATUS, lambda status: status.bfd_state == "up")
            await other.wait("show bfd sessions", lambda text: "Up" in text)
            await routed(node, IPV4)
            other.process.send_signal(signal.SIGSTOP)
            began = trio.current_time()
            await routed(node, IPV4, count=0)
            assert trio.current_time() - began < 10  # the hold time is 90 s
            assert "cease: BFD down (sent)" in "\n".join(node.lines)

    run_in_namespace(run)


def test_a_passive_neighbour_is_waited_for() -> None:
    async def run(daemon: Daemon) -> None:
        config = INSTANCE + NUMBERED.replace("}]", ", passive: true}]")
        async with speaker(daemon, config, *ADDRESSES) as (node, peer):
            await node.wait(
                kinds.BGP_PEER_STATUS, STATUS, lambda status: status.state == BGP_SESSION_STATE_ACTIVE
            )
            async with bird(peer, SESSION.replace("as 65001;", "as 65001;\n  connect delay time 1;")):
                await established(node)

    run_in_namespace(run)


def test_a_neighbour_sees_the_number_that_it_is_shown() -> None:
    async def run(daemon: Daemon) -> None:
        config = INSTANCE + NUMBERED.replace("}]", ", localASN: 4200000001}]")
        settings = SESSION.replace("as 65001;", "as 4200000001;")
        async with speaker(daemon, config, *ADDRESSES) as (node, peer), bird(peer, settings) as other:
            status = await established(node)
            assert status.local_asn == 4200000001
            await other.wait("show route all", lambda text: "BGP.as_path: 4200000001\n" in text)

    run_in_namespace(run)


def test_changes_of_the_config_take_effect() -> None:
    async def run(daemon: Daemon) -> None:
        config = INSTANCE + NUMBERED
        async with speaker(daemon, config, *ADDRESSES) as (node, peer), bird(peer, SESSION) as other:
            await established(node)
            since = (await established(node)).since.ToNanoseconds()
            await node.configure(
                LINKS.replace("192.0.2.7/32}", "192.0.2.7/32}, {address: 192.0.2.8/32}") + config
            )
            await other.wait("show route", lambda text: "192.0.2.8/32" in text)
            assert (await established(node)).since.ToNanoseconds() == since
            await node.configure(LINKS + config + "installRoutes: false\n")
            await routed(node, IPV4, count=0)
            await other.wait("show route", lambda text: "192.0.2.8/32" not in text)
            assert (await established(node)).since.ToNanoseconds() == since
            await node.configure(LINKS)
            await other.wait("show protocols all node", lambda text: "Established" not in text)
            async with node.state.watch(kinds.BGP_PEER_STATUS) as changes:
                while await node.state.list(kinds.BGP_PEER_STATUS):
                    await anext(changes)

    run_in_namespace(run)
