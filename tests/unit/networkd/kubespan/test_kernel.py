"""Which packets take KubeSpan's link, with the kernel's routes and nftables; a tun device is the link."""

import fcntl
import os
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import ip_address, ip_interface, ip_network

import pytest
import trio
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import Peer

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec, PeerSpecSpec
from talos.networkd.controllers.address_spec import AddressSpecController
from talos.networkd.controllers.firewall import TABLE, NfTablesChainController
from talos.networkd.controllers.kubespan import KubeSpanManagerController
from talos.networkd.controllers.merge import make_merge_controllers
from talos.networkd.controllers.route_spec import RouteSpecController
from talos.networkd.controllers.rule_spec import RoutingRuleSpecController
from talos.process.run import Daemon
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.kernel_links import open_links
from talos.system.net.links import AddressState, Links, RouteState
from talos.system.net.nftables import has_table

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # <linux/if_tun.h>
OWN, PEER, PEER6, STRANGER = "fd7f:175a:b97c:5602::1", "198.51.100.7", "2001:db8:7::7", "203.0.113.5"
MTU = 1380
OTHERS = [f"2001:db8:7::{2 * number:x}" for number in range(4, 2000)]
"""More addresses apart from each other than a message of the kernel's has room for."""
MSS = {4: MTU - 40, 6: MTU - 60}


@contextmanager
def tun(name: str) -> Generator[int]:
    """A device whose packets are read from the descriptor."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
        yield descriptor
    finally:
        os.close(descriptor)


async def find_segment_size(descriptor: int, target: str) -> int:
    """The segment size in the next SYN to the target that comes out of the device."""
    address = ip_address(target)
    start, head = (16, 20) if address.version == 4 else (24, 40)
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        packet = os.read(descriptor, 1 << 16)
        if packet[start : start + len(address.packed)] == address.packed:
            # The first option of TCP's header, of 4 bytes.
            assert packet[head + 20 : head + 22] == b"\x02\x04", packet.hex()
            return int.from_bytes(packet[head + 22 : head + 24])


def connect(target: str, mark: int = 0) -> None:
    """Send a SYN, and wait for nothing."""
    with socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET) as client:
        client.setblocking(False)
        if mark:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        client.connect_ex((target, 50000))


async def make_default(links: Links, name: str) -> None:
    """Give the node an ordinary network with a default route."""
    index = {link.name: link.index for link in await links.links()}[name]
    for text in ("10.0.0.1/24", "fd00:1::1/64"):
        await links.add_address(AddressState(link_index=index, address=ip_interface(text), flags=2))
    await links.set_link(index, up=True)
    for family, gateway in ((2, "10.0.0.2"), (10, "fd00:1::2")):
        route = RouteState(family=family, gateway=ip_address(gateway), link_index=index, table=254, type=1)
        await links.add_route(route)


async def has_rules(links: Links) -> bool:
    tables = [route.table for route in await links.routes()]
    rules = [rule for rule in await links.rules() if rule.priority == 32500]
    return has_table(TABLE) and tables.count(180) == 2 and len(rules) == 2


async def send(daemon: Daemon) -> None:
    state, peer, log = MemoryState(), Peer(), Log(write=lambda _: None)
    async with open_links() as links, trio.open_nursery() as nursery:
        await peer.plug("near", "far", ["10.0.0.2/24", "fd00:1::2/64"])
        await make_default(links, "near")
        with tun("kubespan") as link:
            index = {item.name: item.index for item in await links.links()}["kubespan"]
            await links.set_link(index, up=True, mtu=MTU)
            controllers = [
                KubeSpanManagerController(links),
                *make_merge_controllers(),
                AddressSpecController(links, log),
                RouteSpecController(links, log),
                RoutingRuleSpecController(links, log),
                NfTablesChainController(links, log),
            ]
            await nursery.start(run_controllers, state, controllers)
            identity = IdentitySpec(address=make_prefix(ip_interface(f"{OWN}/128")))
            allowed = [make_prefix(ip_network(text)) for text in (PEER, PEER6, f"{OWN[:-1]}2/128", *OTHERS)]
            spec = PeerSpecSpec(address=make_ip(ip_address(f"{OWN[:-1]}2")), allowed_ips=allowed)
            await put(state, kinds.KUBE_SPAN_PEER_SPEC, "key", spec, owner="test")
            config = ConfigSpec(enabled=True, mtu=MTU, force_routing=True)
            await put(state, *ids.KUBE_SPAN_CONFIG, config, owner="test")
            await put(state, *ids.KUBE_SPAN_IDENTITY, identity, owner="test")
            while not await has_rules(links):  # noqa: ASYNC110 - seen by the kernel alone
                await trio.sleep(0.01)
            for target in (PEER, PEER6):
                connect(target)
                assert await find_segment_size(link, target) == MSS[ip_address(target).version]
            connect(f"{OWN[:-1]}2")
            await find_segment_size(link, f"{OWN[:-1]}2")
            # WireGuard's own packets and those to others take the ordinary route.
            connect(PEER, mark=0x20)
            connect(STRANGER)
            with trio.move_on_after(0.3) as waiting:
                await find_segment_size(link, PEER)
            assert waiting.cancelled_caught, "a packet of WireGuard's own went into its link"
        nursery.cancel_scope.cancel()
    peer.close()


@pytest.mark.root
def test_packets_to_peers_take_the_link_and_no_others() -> None:
    run_in_namespace(send)
