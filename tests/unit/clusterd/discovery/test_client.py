"""clusterd's discovery with real servers, and with one that lies."""

# gRPC's type stubs have no handlers of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest
import trio
from google.protobuf.duration_pb2 import Duration
from tests.harness.limits import REAL_TIMEOUT

from talos.api.common.common_pb2 import NetIP, NetIPPort
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.discovery.affiliate_pb2 import Affiliate as Payload
from talos.api.discovery.cluster_pb2 import (
    Affiliate,
    AffiliateDeleteRequest,
    AffiliateDeleteResponse,
    AffiliateUpdateRequest,
    AffiliateUpdateResponse,
    WatchResponse,
)
from talos.api.rpc import Transport
from talos.clusterd.discovery import client as client_module
from talos.clusterd.discovery import known
from talos.clusterd.discovery.cipher import PayloadCipher
from talos.clusterd.discovery.client import SERVICE, ClientSettings, DiscoveryClient, is_endpoint
from talos.discovery.clusters import Clusters
from talos.discovery.limits import FullError
from talos.discovery.server import DiscoveryServer, Settings
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.process.run import Daemon, host
from talos.rpc.channel import open_remote
from talos.rpc.port.remote import ClientTls, RemoteServer, make_client_context
from talos.serving.endpoint import Endpoint
from talos.system.logging import Log
from talos.system.wakeup import Signal

KEY = bytes(range(32))


@dataclass
class Node:
    """A client and what it has logged."""

    client: DiscoveryClient
    lines: list[str]
    changed: Signal
    connected: list[str]
    connecting: Signal

    async def finds(self, *names: str) -> None:
        """Wait until it has exactly these nodes."""
        with trio.move_on_after(20):
            while {spec.hostname for spec in self.client.affiliates.values()} != {*names}:
                await self.changed.wait()
            return
        raise AssertionError(f"finds {self.client.affiliates} instead of {names}: {self.lines}")

    async def logs(self, text: str) -> None:
        """Wait until it has logged this, once."""
        while not any(text in line for line in self.lines):
            await self.changed.wait()
        assert sum(text in line for line in self.lines) == 1

    async def connects(self, times: int) -> None:
        """Wait until it has connected so often."""
        while len(self.connected) < times:
            await self.connecting.wait()


def make_local(name: str) -> AffiliateSpec:
    return AffiliateSpec(
        node_id=f"id-{name}",
        hostname=name,
        nodename=name,
        machine_type=enums.TYPE_WORKER,
        addresses=[NetIP(ip=b"\xc0\x00\x02\x01")],
    )


@asynccontextmanager
async def running_node(
    daemon: Daemon, name: str, endpoint: str, *, key: bytes = KEY, authorities: bytes | None = None
) -> AsyncGenerator[Node]:
    lines: list[str] = []
    changed = Signal()
    connected: list[str] = []
    connecting = Signal()

    @asynccontextmanager
    async def connect(endpoint: str) -> AsyncGenerator[Transport]:
        connected.append(endpoint)
        connecting.notify()
        address, _, port = endpoint.rpartition(":")
        context = make_client_context(ClientTls(authorities=(authorities,))) if authorities else None
        server = RemoteServer(host=address, port=int(port), context=context, max_message=1 << 20)
        async with open_remote(daemon.bridge, server) as transport:
            yield transport

    settings = ClientSettings(
        endpoint=endpoint, is_plain=True, cluster_id="cluster", node_id=f"id-{name}", key=key, version="v1"
    )

    def write(line: str) -> None:
        lines.append(line)
        changed.notify()

    client = DiscoveryClient(settings, connect, Log(write=write), changed.notify)
    client.publish(make_local(name))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        yield Node(client, lines, changed, connected, connecting)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def running_server(
    daemon: Daemon, *, port: int = 0, redirect: str = "", pair: PemPair | None = None
) -> AsyncGenerator[str]:
    async def make() -> DiscoveryServer:
        endpoint = Endpoint(host="127.0.0.1", port=port, tls=pair)
        server = DiscoveryServer(Settings(endpoint=endpoint, metrics_port=-1, redirect=redirect))
        await server.start()
        return server

    server = await daemon.bridge.call(make)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        with trio.CancelScope(shield=True):
            await daemon.bridge.call(server.stop, 0)


class HostileServer:
    """A server that answers every watch with the same messages, as often as they are read, and every call."""

    def __init__(self, messages: Sequence[bytes], *, hello: bytes = b"", endless: bool = False) -> None:
        self._messages = messages
        self._hello = hello
        self._endless = endless
        self.sent = 0

    async def _unary(self, request: bytes, _: object) -> bytes:
        del request
        return self._hello

    async def _watch(self, request: bytes, _: object) -> AsyncGenerator[bytes]:
        del request
        while True:
            for message in self._messages:
                self.sent += 1
                yield message
            if not self._endless:
                await asyncio.sleep(3600)

    @asynccontextmanager
    async def serve(self, daemon: Daemon) -> AsyncGenerator[str]:
        async def start() -> tuple[grpc.aio.Server, int]:
            server = grpc.aio.server()
            unary = grpc.unary_unary_rpc_method_handler(self._unary)
            handlers = {
                "Hello": unary,
                "AffiliateUpdate": unary,
                "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
            }
            name = "sidero.discovery.server.Cluster"
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            return server, port

        server, port = await daemon.bridge.call(start)
        try:
            yield f"127.0.0.1:{port}"
        finally:
            with trio.CancelScope(shield=True):
                await daemon.bridge.call(server.stop, 0)


def run(test: Callable[[Daemon], Awaitable[None]]) -> None:
    async def limited(daemon: Daemon) -> None:
        with trio.fail_after(REAL_TIMEOUT):
            await test(daemon)

    asyncio.run(host(limited, "test", Log(write=lambda _: None)))


def test_nodes_find_each_other_and_see_who_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "DELETED", 0.2)

    async def test(daemon: Daemon) -> None:
        async with (
            running_server(daemon) as endpoint,
            running_node(daemon, "one", endpoint) as one,
            running_node(daemon, "two", endpoint) as two,
        ):
            await one.finds("two")
            await two.finds("one")
            assert one.client.affiliates["id-two"] == make_local("two")
            changed = make_local("two")
            changed.hostname = "changed"
            two.client.publish(changed)
            await one.finds("changed")
            two.client.leave()
            await one.finds()

    run(test)


def test_where_a_node_was_seen_is_added_to_what_it_publishes() -> None:
    seen = NetIPPort(ip=b"\xc0\x00\x02\x07", port=4500)
    local = make_local("two")
    local.kube_span.public_key = "key"
    local.kube_span.address.ip = b"\xc0\x00\x02\x02"
    local.kube_span.endpoints.add(ip=b"\xc0\x00\x02\x02", port=51820)

    async def test(daemon: Daemon) -> None:
        async with (
            running_server(daemon) as endpoint,
            running_node(daemon, "one", endpoint) as one,
            running_node(daemon, "two", endpoint) as two,
            running_node(daemon, "three", endpoint) as three,
        ):
            two.client.publish(local)
            await one.finds("two", "three")
            three.client.publish(make_local("three"), {"id-two": seen})
            while seen not in one.client.affiliates["id-two"].kube_span.endpoints:
                await one.changed.wait()
            assert one.client.affiliates["id-two"].kube_span.endpoints[0] == local.kube_span.endpoints[0]

    run(test)


class Stranger:
    """One who has the cluster's id alone, and speaks of node two."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def update(self, *endpoints: bytes, data: bytes = b"") -> None:
        request = AffiliateUpdateRequest(
            cluster_id="cluster",
            affiliate_id="id-two",
            affiliate_data=data,
            affiliate_endpoints=endpoints,
            ttl=Duration(seconds=60),
        )
        await self._transport.unary(SERVICE + "AffiliateUpdate", request, AffiliateUpdateResponse, timeout=5)

    async def delete(self) -> None:
        request = AffiliateDeleteRequest(cluster_id="cluster", affiliate_id="id-two")
        await self._transport.unary(SERVICE + "AffiliateDelete", request, AffiliateDeleteResponse, timeout=5)


@asynccontextmanager
async def running_stranger(daemon: Daemon, endpoint: str) -> AsyncGenerator[Stranger]:
    port = int(endpoint.rpartition(":")[2])
    async with open_remote(
        daemon.bridge, RemoteServer(host="127.0.0.1", port=port, context=None)
    ) as transport:
        yield Stranger(transport)


def test_a_node_that_others_delete_is_back_before_anyone_forgets_it() -> None:
    async def test(daemon: Daemon) -> None:
        async with (
            running_server(daemon) as endpoint,
            running_node(daemon, "one", endpoint) as one,
            running_node(daemon, "two", endpoint) as two,
        ):
            await one.finds("two")
            async with running_stranger(daemon, endpoint) as stranger:
                await stranger.delete()
            await two.logs("has lost this node")
            async with running_node(daemon, "three", endpoint) as three:
                await three.finds("one", "two")
            assert [*one.client.affiliates] == ["id-two", "id-three"]

    run(test)


def test_what_others_send_as_a_node_is_replaced_by_itself() -> None:
    async def test(daemon: Daemon) -> None:
        async with running_server(daemon) as endpoint, running_node(daemon, "two", endpoint):
            async with running_node(daemon, "one", endpoint) as one:
                await one.finds("two")
            async with running_stranger(daemon, endpoint) as stranger:
                await stranger.update(data=b"nonsense")
            async with running_node(daemon, "three", endpoint) as three:
                await three.finds("one", "two")

    run(test)


@pytest.mark.parametrize("has_room", [True, False])
def test_endpoints_that_others_add_keep_no_node_out(has_room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may give a node's own endpoints room, or refuse what it sends."""
    if not has_room:
        monkeypatch.setattr(Clusters, "update", _update_by_first_come(Clusters.update))
    local = make_local("two")
    local.kube_span.public_key = "key"
    local.kube_span.endpoints.add(ip=b"\xc0\x00\x02\x01", port=51820)

    async def test(daemon: Daemon) -> None:
        async with (
            running_server(daemon) as endpoint,
            running_node(daemon, "two", endpoint) as two,
            running_node(daemon, "one", endpoint) as one,
        ):
            await one.finds("two")
            async with running_stranger(daemon, endpoint) as stranger:
                await stranger.update(*(bytes([number]) * 16 for number in range(64)))
            two.client.publish(local)
            while not one.client.affiliates["id-two"].kube_span.endpoints:
                await one.changed.wait()
            assert two.connected == [endpoint]

    run(test)


def _update_by_first_come(update: Callable[..., None]) -> Callable[..., None]:
    def refuse(clusters: Clusters, cluster_id: str, id: str, data: bytes, *rest: Any) -> None:
        known_endpoints = [one.endpoints for one in clusters.find_affiliates(cluster_id) if one.id == id]
        if data and known_endpoints and len(known_endpoints[0]) >= 64:
            raise FullError("too many endpoints in the affiliate")
        update(clusters, cluster_id, id, data, *rest)

    return refuse


def test_a_server_that_has_no_room_for_a_node_tells_it_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "REFUSED_INTERVAL", 0.1)
    full = True

    def refuse(clusters: Clusters, cluster_id: str, id: str, *rest: Any) -> None:
        if full and id == "id-one":
            raise FullError("too many affiliates in the cluster")
        update(clusters, cluster_id, id, *rest)

    update = Clusters.update
    monkeypatch.setattr(Clusters, "update", refuse)

    async def test(daemon: Daemon) -> None:
        nonlocal full
        async with (
            running_server(daemon) as endpoint,
            running_node(daemon, "two", endpoint) as two,
            running_node(daemon, "one", endpoint) as one,
        ):
            await one.finds("two")
            await one.logs("no room for this node: too many affiliates in the cluster")
            full = False
            await two.finds("one")
            assert one.connected == [endpoint]

    run(test)


def test_a_server_that_restarts_gets_all_again_and_no_member_is_forgotten() -> None:
    async def test(daemon: Daemon) -> None:
        async with running_server(daemon) as endpoint:
            port = int(endpoint.rpartition(":")[2])
        async with running_node(daemon, "one", endpoint) as one, running_node(daemon, "two", endpoint) as two:
            async with running_server(daemon, port=port):
                await one.finds("two")
            async with running_server(daemon, port=port):
                changed = make_local("two")
                changed.hostname = "changed"
                two.client.publish(changed)
                await one.finds("changed")
            assert sum("fails" in line for line in one.lines) >= 1

    run(test)


def test_the_server_is_verified() -> None:
    authority = CertificateAuthority.generate(KeyType.P256, organizations=["test"])
    other = CertificateAuthority.generate(KeyType.P256, organizations=["test"])

    async def test(daemon: Daemon) -> None:
        for address in ("127.0.0.1", "192.0.2.1"):
            pair = authority.issue(usages=Usage.SERVER, ips=[address])
            async with (
                running_server(daemon, pair=pair) as endpoint,
                running_node(daemon, "one", endpoint, authorities=authority.crt) as one,
                running_node(daemon, "two", endpoint, authorities=authority.crt),
                running_node(daemon, "three", endpoint, authorities=other.crt) as three,
            ):
                if endpoint.startswith(address):
                    await one.finds("two")
                else:
                    await one.logs("IP address mismatch")
                await three.logs("CERTIFICATE_VERIFY_FAILED")

    run(test)


def test_a_redirect_is_followed() -> None:
    async def test(daemon: Daemon) -> None:
        async with (
            running_server(daemon) as real,
            running_server(daemon, redirect=real) as first,
            running_node(daemon, "one", first) as one,
            running_node(daemon, "two", real),
        ):
            await one.finds("two")
            assert one.connected == [first, real]

    run(test)


def test_a_server_that_redirects_for_ever_is_left_alone() -> None:
    assert is_endpoint("[2001:db8::1]:443")
    assert not any(map(is_endpoint, ("", "host", "host:0", "host:99999", "a b:1", "x" * 300 + ":1", "h:1\n")))

    async def test(daemon: Daemon) -> None:
        for target in ("nonsense", "127.0.0.1:1"):
            hostile = HostileServer(
                [],
                hello=b"\x0a" + bytes([len(target) + 2]) + b"\x0a" + bytes([len(target)]) + target.encode(),
            )
            async with hostile.serve(daemon) as endpoint, running_node(daemon, "one", endpoint) as one:
                with trio.move_on_after(2):
                    await one.finds("nobody at all")
                assert len(one.connected) < 10
                assert len(one.lines) <= 4, one.lines

    run(test)


def test_garbage_is_an_error_and_the_client_goes_on() -> None:
    async def test(daemon: Daemon) -> None:
        good = PayloadCipher(KEY).seal(Payload(node_id="id-two", hostname="two"))
        message = WatchResponse(affiliates=[Affiliate(id="id-two", data=good)]).SerializeToString()
        hostile = HostileServer([message, b"\xff\xff\xff"])
        async with hostile.serve(daemon) as endpoint, running_node(daemon, "one", endpoint) as one:
            await one.finds("two")
            await one.connects(3)
            assert [*one.client.affiliates] == ["id-two"]
            assert (
                sum("the reply is not a sidero.discovery.server.WatchResponse" in line for line in one.lines)
                <= 3
            )

    run(test)


def test_a_flood_is_read_slowly() -> None:
    async def test(daemon: Daemon) -> None:
        big = WatchResponse(affiliates=[Affiliate(id=f"{n}", data=bytes(2000)) for n in range(100)])
        hostile = HostileServer([big.SerializeToString()], endless=True)
        async with hostile.serve(daemon) as endpoint, running_node(daemon, "one", endpoint) as one:
            with trio.move_on_after(2):
                await one.finds("nobody at all")
            assert len(one.lines) <= 3
            assert hostile.sent < 400, "flow control holds the server back"

    run(test)


def test_another_cluster_s_secret_is_logged_once() -> None:
    async def test(daemon: Daemon) -> None:
        async with (
            running_server(daemon) as endpoint,
            running_node(daemon, "foreign", endpoint, key=bytes(32)),
            running_node(daemon, "two", endpoint),
            running_node(daemon, "one", endpoint) as one,
        ):
            await one.finds("two")
            await one.logs("another cluster's secret")

    run(test)
