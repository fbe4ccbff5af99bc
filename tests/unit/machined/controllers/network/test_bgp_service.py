"""When bgpd runs: from the first instance on, until what the last one has written is removed."""

from collections.abc import Iterable
from typing import Any

import trio.testing
from tests.unit.machined.controllers.running import running

from talos.api.definitions.network_pb2 import BGPInstanceConfigSpec, BGPPeerStatusSpec, RouteSpecSpec
from talos.machined.controllers.network.bgp_service import BGPServiceController
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, put
from talos.resource.memory.state import MemoryState

ROUTE = "bgp/fabric/inet4/10.0.0.1/192.0.2.0/24/0"


class Services:
    """What is started and stopped, in that order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def start_soon(self, ids: Iterable[str]) -> None:
        self.done += [f"start {name}" for name in ids]

    async def halt(self, id: str) -> None:
        await trio.lowlevel.checkpoint()
        self.done.append(f"halt {id}")


async def test_bgpd_runs_until_its_peers_and_routes_are_gone() -> None:
    state, services = MemoryState(), Services()
    fake: Any = services
    async with running(state, BGPServiceController(fake)):
        await trio.testing.wait_all_tasks_blocked()
        assert services.done == [], "without an instance it is not started"
        await put(state, kinds.BGP_INSTANCE_CONFIG, "fabric", BGPInstanceConfigSpec())
        await trio.testing.wait_all_tasks_blocked()
        await put(state, kinds.BGP_INSTANCE_CONFIG, "tenant", BGPInstanceConfigSpec())
        await trio.testing.wait_all_tasks_blocked()
        assert services.done == ["start bgpd"], "one for all instances"
        await put(state, kinds.BGP_PEER_STATUS, "fabric/10.0.0.1", BGPPeerStatusSpec())
        await put(state, kinds.ROUTE_SPEC, ROUTE, RouteSpecSpec(), namespace=ids.NETWORK_CONFIG)
        await put(state, kinds.ROUTE_SPEC, "dhcp4/eth0", RouteSpecSpec(), namespace=ids.NETWORK_CONFIG)
        for instance in ("fabric", "tenant"):
            await destroy_if_present(state, kinds.BGP_INSTANCE_CONFIG, instance)
        await trio.testing.wait_all_tasks_blocked()
        await destroy_if_present(state, kinds.BGP_PEER_STATUS, "fabric/10.0.0.1")
        await trio.testing.wait_all_tasks_blocked()
        assert services.done == ["start bgpd"], "it still has a route to remove"
        await destroy_if_present(state, kinds.ROUTE_SPEC, ROUTE, namespace=ids.NETWORK_CONFIG)
        await trio.testing.wait_all_tasks_blocked()
        assert services.done == ["start bgpd", "halt bgpd"], "other routes are not its own"
        await put(state, kinds.BGP_INSTANCE_CONFIG, "fabric", BGPInstanceConfigSpec())
        await trio.testing.wait_all_tasks_blocked()
        assert services.done[2:] == ["start bgpd"]
