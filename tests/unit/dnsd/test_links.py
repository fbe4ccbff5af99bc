"""The host's resolver serves the node and its pods; other machines of the node's links are not answered."""

import socket
from ipaddress import IPv4Address, ip_interface

import pytest
import trio
import trio.testing
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import PACKET_TIMEOUT, Peer
from tests.unit.dnsd.server import make_question

from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions.network_pb2 import AddressSpecSpec, HostDNSConfigSpec, LinkStatusSpec
from talos.dnsd.controllers.resolve_cache import RUNNING, DNSResolveCacheController
from talos.dnsd.resolver import Resolver
from talos.process.run import Daemon
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.kernel_links import open_links
from talos.system.net.links import AddressState
from talos.system.net.packets import find_link_of_stream

pytestmark = pytest.mark.root

NEAR, FAR, PORT = "10.78.0.1", "10.78.0.2", 53
"""The former is the loopback link's, as are those that the resolver serves."""
GATEWAY = "10.78.0.3"
KINDS = {"lo": "", "near": "veth"}


def query(address: str) -> bool:
    """Whether a question over UDP is answered."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(PACKET_TIMEOUT)
        client.connect((address, PORT))
        client.send(make_question("a.example"))
        try:
            return bool(client.recv(512))
        except TimeoutError:
            return False


def query_over_tcp(address: str) -> bool:
    """Whether a question over a connection is answered; False too when it is closed or not made."""
    question = make_question("a.example")
    try:
        with socket.create_connection((address, PORT), timeout=PACKET_TIMEOUT) as client:
            client.sendall(len(question).to_bytes(2) + question)
            return bool(client.recv(512))
    except (ConnectionError, TimeoutError):
        return False


def test_links_that_lead_to_other_machines_are_not_served_and_those_of_pods_are() -> None:
    run_in_namespace(check)


async def check(daemon: Daemon) -> None:
    peer, state = Peer(), MemoryState()
    async with open_links() as links, trio.open_nursery() as nursery:
        await peer.plug("near", "far", [f"{FAR}/24"])
        indexes = {link.name: link.index for link in await links.links()}
        for name, text in (("lo", f"{NEAR}/32"), ("near", f"{GATEWAY}/24")):
            await links.add_address(AddressState(link_index=indexes[name], address=ip_interface(text)))
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

        async def find_served() -> tuple[bool, bool, bool, bool]:
            return (
                await trio.to_thread.run_sync(lambda: peer.run(query, NEAR)),
                await trio.to_thread.run_sync(lambda: peer.run(query_over_tcp, NEAR)),
                await trio.to_thread.run_sync(query, NEAR),
                await trio.to_thread.run_sync(query_over_tcp, NEAR),
            )

        assert await find_served() == (True, True, True, True), "a pod's link"
        await put(state, kinds.ADDRESS_SPEC, "near", AddressSpecSpec(link_name="near"))
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert await find_served() == (False, False, True, True), "a link that has an address of the node's"
        await state.destroy(kinds.ADDRESS_SPEC, "near")
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert await find_served() == (True, True, True, True), "a pod's link again"
        await put(state, kinds.LINK_STATUS, "near", LinkStatusSpec(index=indexes["near"], kind=""))
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert await find_served() == (False, False, True, True), "a device without an address"
        nursery.cancel_scope.cancel()
    peer.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_connection_tells_its_link(host: str) -> None:
    [listener] = await trio.open_tcp_listeners(0, host=host)
    async with listener, await trio.open_tcp_stream(host, listener.socket.getsockname()[1]) as client:
        await client.send_all(b"early")
        async with await listener.accept() as stream:
            assert find_link_of_stream(stream.socket) == socket.if_nametoindex("lo")
