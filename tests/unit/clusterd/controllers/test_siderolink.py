"""The link to a management service: the call, its endpoints one after the other, and what a failure does."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, cast

import trio
import trio.testing
from tests.unit.clusterd.siderolink.test_provision import GOOD, NETWORK, PEER
from trio.testing import MockClock

from talos.api.definitions.hardware_pb2 import SystemInformationSpec
from talos.api.definitions.network_pb2 import LinkSpecSpec, LinkStatusSpec
from talos.api.definitions.network_pb2 import StatusSpec as NetworkStatusSpec
from talos.api.definitions.runtime_pb2 import MetaKeySpec, UniqueMachineTokenSpec
from talos.api.definitions.siderolink_pb2 import ConfigSpec, StatusSpec
from talos.api.rpc import Code, DuplexCall, DuplexTransport, RpcError
from talos.api.service_endpoint import Endpoint
from talos.api.siderolink.provision_pb2 import ProvisionRequest, ProvisionResponse
from talos.api.siderolink.wireguard_pb2 import PeerPacket
from talos.clusterd.controllers.siderolink import ENDPOINT_TIMEOUT, UUID_KEY, SiderolinkManagerController
from talos.clusterd.siderolink.specs import make_link_id
from talos.pki.wireguard import make_public_key
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.rpc.port.remote import RemoteServer
from talos.system.logging import Log

LINK_ID = make_link_id("siderolink")


@dataclass
class Service:
    """A management service, which fails while there is an error."""

    reply: dict[str, Any] = field(default_factory=lambda: dict(GOOD))
    error: RpcError | None = None
    hangs: bool = False
    streams: list[tuple[str, dict[str, list[str]]]] = field(
        default_factory=list[tuple[str, dict[str, list[str]]]]
    )
    calls: list[tuple[RemoteServer, ProvisionRequest]] = field(
        default_factory=list[tuple[RemoteServer, ProvisionRequest]]
    )

    @asynccontextmanager
    async def connect(self, server: RemoteServer) -> AsyncGenerator[DuplexTransport]:
        self.server = server
        yield cast("DuplexTransport", self)

    @asynccontextmanager
    async def duplex(
        self, method: str, reply: type[PeerPacket], *, metadata: dict[str, list[str]]
    ) -> AsyncGenerator[DuplexCall[PeerPacket]]:
        self.streams.append((method, metadata))
        if not self.streams:
            yield cast("DuplexCall[PeerPacket]", reply)
        raise RpcError(Code.UNAVAILABLE, "no stream")

    async def unary(
        self, method: str, request: ProvisionRequest, reply: type[ProvisionResponse], **_: object
    ) -> ProvisionResponse:
        assert method == "/sidero.link.ProvisionService/Provision"
        self.calls.append((self.server, request))
        if self.hangs:
            await trio.sleep_forever()
        if self.error is not None:
            raise self.error
        return reply(**self.reply)


async def resolve(endpoint: Endpoint) -> IPv4Address | IPv6Address:
    return ip_address("192.0.2.9" if endpoint.host == "name.example.org" else endpoint.host)


class Node:
    """A State with the controller running on it."""

    def __init__(self) -> None:
        self.state, self.service, self.lines = MemoryState(), Service(), list[str]()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        controller = SiderolinkManagerController(self.service.connect, Log(write=self.lines.append), resolve)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_controllers, self.state, [controller])
            await self.settle()
            yield
            nursery.cancel_scope.cancel()

    async def settle(self) -> None:
        await trio.testing.wait_all_tasks_blocked()

    async def configure(self, *, address_ready: bool = True) -> None:
        config = ConfigSpec(host="192.0.2.1:4000", join_token="join", insecure=True)
        await put(self.state, *ids.SYSTEM_INFORMATION, SystemInformationSpec(uuid="uuid"))
        await put(self.state, *ids.UNIQUE_MACHINE_TOKEN, UniqueMachineTokenSpec(token="unique"))
        await put(self.state, *ids.SIDEROLINK_CONFIG, config)
        await put(self.state, *ids.NETWORK_STATUS, NetworkStatusSpec(address_ready=address_ready))
        await self.settle()

    async def make_link(self, *, connected: bool) -> None:
        """What networkd does with the spec."""
        await put(self.state, kinds.LINK_STATUS, "siderolink", LinkStatusSpec(kind="wireguard"))
        await put(self.state, *ids.SIDEROLINK_STATUS, StatusSpec(connected=connected))
        await self.settle()

    async def specs(self) -> dict[str, LinkSpecSpec]:
        found = await self.state.list(kinds.LINK_SPEC, namespace=ids.NETWORK_CONFIG)
        return {one.id: one.spec for one in found}

    async def endpoint(self) -> str:
        [peer] = (await self.specs())[LINK_ID].wireguard.peers
        return peer.endpoint


async def test_a_node_with_an_address_is_given_its_end_of_the_link() -> None:
    node = Node()
    async with node.running():
        await node.configure(address_ready=False)
        assert not node.service.calls
        await node.configure()
        [(server, request)] = node.service.calls
        assert (server.host, server.port, server.context) == ("192.0.2.1", 4000, None)
        link = (await node.specs())[LINK_ID]
        assert request == ProvisionRequest(
            node_uuid="uuid",
            node_public_key=make_public_key(link.wireguard.private_key),
            join_token="join",
            node_unique_token="unique",
            talos_version=request.talos_version,
        )
        assert request.talos_version
        assert not request.HasField("wireguard_over_grpc")
        assert (link.name, link.kind, link.mtu, link.up, link.logical) == (
            "siderolink",
            "wireguard",
            1280,
            True,
            True,
        )
        [peer] = link.wireguard.peers
        assert (peer.public_key, peer.endpoint) == (GOOD["server_public_key"], "[2001:db8::1]:2")
        assert peer.persistent_keepalive_interval.seconds == 25
        [allowed] = peer.allowed_ips
        assert (ip_address(allowed.ip), allowed.prefix_length) == (ip_address(f"{NETWORK}:1"), 128)
        [address] = await node.state.list(kinds.ADDRESS_SPEC, namespace=ids.NETWORK_CONFIG)
        assert address.id == f"{LINK_ID}/{NETWORK}:5/64"
        assert not [line for line in node.lines if "join" in line or "unique" in line]

        await destroy_if_present(node.state, *ids.SIDEROLINK_CONFIG)
        await node.settle()
        assert await node.specs() == {}
        assert await node.state.list(kinds.ADDRESS_SPEC, namespace=ids.NETWORK_CONFIG) == []


async def test_endpoints_are_tried_in_turn_and_then_the_service_is_called_again(
    autojump_clock: MockClock,
) -> None:
    del autojump_clock
    node = Node()
    async with node.running():
        await node.configure()
        await node.make_link(connected=False)
        seen = [await node.endpoint()]
        for _ in range(3):
            await trio.sleep(ENDPOINT_TIMEOUT)
            await node.settle()
            seen.append(await node.endpoint())
        assert seen == ["[2001:db8::1]:2", "192.0.2.9:1", "192.0.2.1:51820", "[2001:db8::1]:2"]
        assert len(node.service.calls) == 2
        keys = {request.node_public_key for _, request in node.service.calls}
        assert len(keys) == 1, "the key is the boot's"


async def test_a_connected_link_is_left_alone_until_it_is_none(autojump_clock: MockClock) -> None:
    del autojump_clock
    node = Node()
    async with node.running():
        await node.configure()
        await node.make_link(connected=True)
        await trio.sleep(1000)
        await node.settle()
        assert len(node.service.calls) == 1
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline > ENDPOINT_TIMEOUT
        await node.make_link(connected=False)
        assert await node.endpoint() == "192.0.2.9:1"


async def test_a_service_that_fails_is_called_less_and_less_often(autojump_clock: MockClock) -> None:
    del autojump_clock
    node = Node()
    node.service.error = RpcError(Code.PERMISSION_DENIED, "invalid join\ntoken" + "x" * 5000)
    async with node.running():
        await node.configure()
        for delay, count in ((0.5, 1), (0.5, 2), (1.5, 2), (0.5, 3), (4, 4)):
            await trio.sleep(delay)
            await node.settle()
            assert len(node.service.calls) == count
        [line] = [line for line in node.lines if "invalid join" in line]
        assert "invalid join token" in line
        assert len(line) < 500
        node.service.error = None
        await trio.sleep(60)
        await node.settle()
        assert len(await node.specs()) == 1


async def test_another_token_is_another_machine(autojump_clock: MockClock) -> None:
    del autojump_clock
    node = Node()
    async with node.running():
        await node.configure()
        await node.make_link(connected=True)
        node.service.error = RpcError(Code.UNAVAILABLE, "gone")
        await put(node.state, *ids.UNIQUE_MACHINE_TOKEN, UniqueMachineTokenSpec(token="new"))
        await node.settle()
        assert await node.specs() == {}, "what the old token was for has ended"
        node.service.error = None
        await trio.sleep(1)
        await node.settle()
        assert node.service.calls[-1][1].node_unique_token == "new"
        await put(node.state, kinds.META_KEY, UUID_KEY, MetaKeySpec(value="other"))
        await node.settle()
        assert node.service.calls[-1][1].node_uuid == "other"


async def test_a_call_in_progress_does_not_hold_back_what_the_config_names_no_more(
    autojump_clock: MockClock,
) -> None:
    node = Node()
    async with node.running():
        await node.configure()
        await node.make_link(connected=False)
        node.service.hangs = True
        await trio.sleep(3 * ENDPOINT_TIMEOUT)
        await node.settle()
        assert (len(node.service.calls), len(await node.specs())) == (2, 1)
        began = trio.current_time()
        await put(node.state, *ids.NETWORK_STATUS, NetworkStatusSpec(address_ready=True, hostname_ready=True))
        await node.settle()
        assert len(node.service.calls) == 2, "another input leaves the call alone"
        await put(node.state, *ids.SIDEROLINK_CONFIG, ConfigSpec(host="192.0.2.7:4000", insecure=True))
        await node.settle()
        assert (node.service.calls[-1][0].host, await node.specs()) == ("192.0.2.7", {})
        await destroy_if_present(node.state, *ids.SIDEROLINK_CONFIG)
        node.service.hangs = False
        await put(node.state, *ids.SIDEROLINK_CONFIG, ConfigSpec(host="192.0.2.8:4000", insecure=True))
        await node.settle()
        assert node.service.calls[-1][0].host == "192.0.2.8"
        assert len(await node.specs()) == 1
        assert trio.current_time() == began
    del autojump_clock


async def test_a_daemon_that_is_replaced_keeps_the_links_key() -> None:
    node = Node()
    async with node.running():
        await node.configure()
        before = await node.specs()
    async with node.running():
        await node.settle()
        assert len(node.service.calls) == 2
        assert await node.specs() == before


async def test_without_a_uuid_the_remedy_is_named() -> None:
    node = Node()
    async with node.running():
        await put(node.state, *ids.UNIQUE_MACHINE_TOKEN, UniqueMachineTokenSpec())
        await put(node.state, *ids.SIDEROLINK_CONFIG, ConfigSpec(host="192.0.2.1:4000", insecure=True))
        await node.settle()
        assert not node.service.calls
        assert "write META's 0x0f" in node.lines[-1]


async def test_packets_over_grpc_go_through_a_relay(autojump_clock: MockClock) -> None:
    del autojump_clock
    node, name = Node(), "siderolinktun"
    node.service.reply |= {"grpc_peer_addr_port": PEER, "server_endpoint": [PEER]}
    config = ConfigSpec(api_endpoint="url", host="192.0.2.1:4000", insecure=True, tunnel=True)
    async with node.running():
        await node.configure()
        assert await node.specs() == {}, "packets that nothing has requested"
        assert "change grpc_tunnel" in node.lines[-1]
        await put(node.state, *ids.SIDEROLINK_CONFIG, config)
        await node.settle()
        assert node.service.calls[-1][1].wireguard_over_grpc
        [link] = (await node.specs()).values()
        [peer] = link.wireguard.peers
        host, _, port = peer.endpoint.partition(":")
        assert (link.name, link.kind, host) == (name, "wireguard", "127.0.0.1")
        tunnel = (await node.state.get(*ids.SIDEROLINK_TUNNEL)).spec
        assert (tunnel.api_endpoint, tunnel.link_name, tunnel.mtu) == ("url", name, 1280)
        host = ip_address(tunnel.node_address.ip)
        assert f"[{host}]:{tunnel.node_address.port}" == PEER

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.bind(("127.0.0.1", 0))
            status = LinkStatusSpec(kind="wireguard")
            status.wireguard.listen_port = own.getsockname()[1]
            await put(node.state, kinds.LINK_STATUS, name, status)
            await put(node.state, *ids.SIDEROLINK_STATUS, StatusSpec(connected=False))
            await trio.sleep(ENDPOINT_TIMEOUT / 2)
            assert node.service.streams[-1][1] == {"x-siderolink-ipv6-addr": [PEER]}
            assert [line for line in node.lines if "no stream" in line]
            calls = len(node.service.calls)
            await trio.sleep(ENDPOINT_TIMEOUT)
            assert len(node.service.calls) == calls + 1, "no handshake came: the service is called again"
            [link] = (await node.specs()).values()
            assert link.wireguard.peers[0].endpoint != f"127.0.0.1:{port}"

        config.tunnel = False
        del node.service.reply["grpc_peer_addr_port"]
        node.service.reply["server_endpoint"] = GOOD["server_endpoint"]
        await put(node.state, *ids.SIDEROLINK_CONFIG, config)
        await node.settle()
        assert list(await node.specs()) == [LINK_ID]
        assert await node.state.list(kinds.SIDEROLINK_TUNNEL) == []
        streams = len(node.service.streams)
        await trio.sleep(ENDPOINT_TIMEOUT)
        assert len(node.service.streams) == streams, "the relay has ended"
