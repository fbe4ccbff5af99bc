"""The host's resolver serves the node and its pods; other machines of the node's links are not answered."""

import socket
from ipaddress import IPv4Address, ip_interface

import pytest
import trio
import trio.testing
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import DROPPED, OPEN, PATIENCE, Peer
from tests.unit.dnsd.server import make_question

from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions.network_pb2 import AddressSpecSpec, HostDNSConfigSpec, LinkStatusSpec
from talos.daemon.run import Daemon
from talos.dnsd.controllers.resolve_cache import RUNNING, DNSResolveCacheController
from talos.dnsd.resolver import Resolver
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.kernel_links import open_links
from talos.system.net.links import AddressState

pytestmark = pytest.mark.root

NEAR, FAR, PORT = "10.78.0.1", "10.78.0.2", 53
KINDS = {"lo": "", "near": "veth"}


def ask(address: str) -> bool:
    """Whether a question over UDP is answered."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(PATIENCE)
        client.connect((address, PORT))
        client.send(make_question("a.example"))
        try:
            return bool(client.recv(512))
        except TimeoutError:
            return False


def test_links_that_lead_to_other_machines_are_not_served_and_those_of_pods_are() -> None:
    run_in_namespace(check)


async def check(daemon: Daemon) -> None:
    peer, state = Peer(), MemoryState()
    async with open_links(daemon.bridge) as links, trio.open_nursery() as nursery:
        await peer.plug(daemon, "near", "far", [f"{FAR}/24"])
        indexes = {link.name: link.index for link in await links.links()}
        await links.add_address(AddressState(link_index=indexes["near"], address=ip_interface(f"{NEAR}/24")))
        for name, index in indexes.items():
            await links.set_link(index, up=True)
            await put(state, kinds.LINK_STATUS, name, LinkStatusSpec(index=index, kind=KINDS[name]))
        await put(state, kinds.ADDRESS_SPEC, "host", AddressSpecSpec(link_name="lo"))
        place = NetIPPort(ip=IPv4Address(NEAR).packed, port=PORT)
        await put(state, *ids.HOST_DNS_CONFIG, HostDNSConfigSpec(enabled=True, listen_addresses=[place]))
        controller = DNSResolveCacheController(Resolver(Log()), Log())
        await nursery.start(run_controllers, state, [controller])
        name = f"udp-{NEAR}:{PORT}"
        await wait_for(state, kinds.DNS_RESOLVE_CACHE, name, lambda found: found.spec.status == RUNNING)

        async def find_served() -> tuple[bool, str, bool]:
            return (
                await trio.to_thread.run_sync(lambda: peer.run(ask, NEAR)),
                await trio.to_thread.run_sync(peer.connect, NEAR, PORT),
                await trio.to_thread.run_sync(ask, NEAR),
            )

        assert await find_served() == (True, OPEN, True), "a pod's link"
        await put(state, kinds.ADDRESS_SPEC, "near", AddressSpecSpec(link_name="near"))
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert await find_served() == (False, DROPPED, True), "a link that has an address of the node's"
        await state.destroy(kinds.ADDRESS_SPEC, "near")
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert await find_served() == (True, OPEN, True), "a pod's link again"
        await put(state, kinds.LINK_STATUS, "near", LinkStatusSpec(index=indexes["near"], kind=""))
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert await find_served() == (False, DROPPED, True), "a device without an address"
        nursery.cancel_scope.cancel()
    peer.close()
