"""The discovery server on real ports, called with grpc."""

import asyncio
import ipaddress
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from tests.harness.limits import REAL_TIMEOUT

from talos.api.discovery.cluster_pb2 import (
    Affiliate,
    AffiliateDeleteRequest,
    AffiliateDeleteResponse,
    AffiliateUpdateRequest,
    AffiliateUpdateResponse,
    HelloRequest,
    HelloResponse,
    ListRequest,
    ListResponse,
    WatchRequest,
    WatchResponse,
)
from talos.discovery.main import main
from talos.discovery.server import DiscoveryServer, Settings
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.serving.endpoint import Endpoint

CLUSTER = "8XuV9TZHW08DOk3bVxQjH9ih_TBKjnh-j44tsCLSBzo="
TTL = Duration(seconds=1800)
LOOPBACK = Endpoint(host="127.0.0.1", port=0)


class Client:
    """Calls of the discovery API."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def call[R: Message](self, method: str, request: Message, reply: type[R]) -> R:
        unary = self._channel.unary_unary(
            f"/sidero.discovery.server.Cluster/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        return await unary(request, timeout=REAL_TIMEOUT)

    async def update(self, id: str, data: bytes = b"data", *endpoints: bytes, ttl: Duration = TTL) -> None:
        request = AffiliateUpdateRequest(
            cluster_id=CLUSTER,
            affiliate_id=id,
            affiliate_data=data,
            affiliate_endpoints=endpoints,
            ttl=ttl,
        )
        await self.call("AffiliateUpdate", request, AffiliateUpdateResponse)

    async def list(self) -> list[Affiliate]:
        return [*(await self.call("List", ListRequest(cluster_id=CLUSTER), ListResponse)).affiliates]

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[Callable[[], Awaitable[WatchResponse]]]:
        stream = self._channel.unary_stream(
            "/sidero.discovery.server.Cluster/Watch",
            request_serializer=WatchRequest.SerializeToString,
            response_deserializer=WatchResponse.FromString,
        )
        call = stream(WatchRequest(cluster_id=CLUSTER))

        async def read() -> WatchResponse:
            message = await call.read()
            assert isinstance(message, WatchResponse), "the watch has ended"
            return message

        yield read
        call.cancel()

    async def refusal(self, method: str, request: Message) -> tuple[grpc.StatusCode, str | None]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.call(method, request, AffiliateUpdateResponse)
        return caught.value.code(), caught.value.details()


def run(
    test: Callable[[Client, DiscoveryServer], Awaitable[None]],
    settings: Settings | None = None,
    authority: CertificateAuthority | None = None,
) -> None:
    async def limited() -> None:
        server = DiscoveryServer(
            settings or Settings(endpoint=LOOPBACK, metrics_host="127.0.0.1", metrics_port=0)
        )
        await server.start()
        target = f"127.0.0.1:{server.port}"
        channel = (
            grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(authority.crt))
            if authority
            else grpc.aio.insecure_channel(target)
        )
        try:
            async with asyncio.timeout(REAL_TIMEOUT), channel:
                await test(Client(channel), server)
        finally:
            await server.stop(0.1)

    asyncio.run(limited())


def test_hello_gives_the_caller_its_address() -> None:
    async def test(client: Client, _: DiscoveryServer) -> None:
        reply = await client.call(
            "Hello", HelloRequest(cluster_id=CLUSTER, client_version="v1.15.0"), HelloResponse
        )
        assert reply.client_ip == ipaddress.ip_address("127.0.0.1").packed
        assert not reply.HasField("redirect")

    run(test)


def test_what_one_node_writes_another_reads() -> None:
    async def test(client: Client, _: DiscoveryServer) -> None:
        async with client.watch() as read:
            assert await read() == WatchResponse()
            await client.update("one", b"data", b"endpoint")
            expected = Affiliate(id="one", data=b"data", endpoints=[b"endpoint"])
            assert await read() == WatchResponse(affiliates=[expected])
            assert await client.list() == [expected]
            delete = AffiliateDeleteRequest(cluster_id=CLUSTER, affiliate_id="one")
            await client.call("AffiliateDelete", delete, AffiliateDeleteResponse)
            assert await read() == WatchResponse(affiliates=[Affiliate(id="one")], deleted=True)
        async with client.watch() as read:
            assert await read() == WatchResponse()

    run(test)


def test_what_is_not_refreshed_expires() -> None:
    async def test(client: Client, _: DiscoveryServer) -> None:
        await client.update("one", ttl=Duration(nanos=200_000_000))
        async with client.watch() as read:
            await read()
            assert (await read()).deleted
        assert await client.list() == []

    run(test, Settings(endpoint=LOOPBACK, metrics_port=-1, gc_interval=0.1))


@pytest.mark.parametrize(
    ("method", "request_", "text"),
    [
        ("Hello", HelloRequest(), "cluster ID can't be empty"),
        ("Hello", HelloRequest(cluster_id="x" * 257), "cluster ID is too long"),
        ("List", ListRequest(), "cluster ID can't be empty"),
        ("AffiliateDelete", AffiliateDeleteRequest(cluster_id="c"), "affiliate ID can't be empty"),
        (
            "AffiliateUpdate",
            AffiliateUpdateRequest(cluster_id="c", affiliate_id="ä" * 200),
            "affiliate ID is too long",
        ),
        (
            "AffiliateUpdate",
            AffiliateUpdateRequest(cluster_id="c", affiliate_id="a", affiliate_data=b"x" * 2049),
            "affiliate data is too big",
        ),
        (
            "AffiliateUpdate",
            AffiliateUpdateRequest(cluster_id="c", affiliate_id="a", affiliate_endpoints=[b"x" * 33]),
            "affiliate endpoint is too big",
        ),
        (
            "AffiliateUpdate",
            AffiliateUpdateRequest(cluster_id="c", affiliate_id="a", ttl=Duration(seconds=1801)),
            "ttl is too large",
        ),
        (
            "AffiliateUpdate",
            AffiliateUpdateRequest(cluster_id="c", affiliate_id="a", ttl=Duration(seconds=-1)),
            "ttl is not positive",
        ),
        (
            "AffiliateUpdate",
            AffiliateUpdateRequest(cluster_id="c", affiliate_id="a", ttl=Duration(seconds=2**62)),
            "ttl is too large",
        ),
    ],
)
def test_requests_out_of_bounds_are_refused(method: str, request_: Message, text: str) -> None:
    async def test(client: Client, _: DiscoveryServer) -> None:
        assert await client.refusal(method, request_) == (grpc.StatusCode.INVALID_ARGUMENT, text)

    run(test)


def test_a_huge_request_and_garbage_are_refused() -> None:
    async def test(client: Client, _: DiscoveryServer) -> None:
        huge = AffiliateUpdateRequest(cluster_id=CLUSTER, affiliate_data=b"x" * 1_000_000)
        assert (await client.refusal("AffiliateUpdate", huge))[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
        # A message of another type whose field 1 is no text.
        garbage = Duration(seconds=7)
        assert (await client.refusal("AffiliateUpdate", garbage))[0] in {
            grpc.StatusCode.INTERNAL,
            grpc.StatusCode.INVALID_ARGUMENT,
        }
        await client.update("one")

    run(test)


def test_a_flood_is_refused_and_counted() -> None:
    async def test(_: Client, server: DiscoveryServer) -> None:
        async with AsyncExitStack() as stack:
            target = f"127.0.0.1:{server.port}"
            # A pool of its own each, or grpc has them share a connection.
            options = [[("grpc.use_local_subchannel_pool", 1)] for _ in range(4)]
            channels = [grpc.aio.insecure_channel(target, options=option) for option in options]
            clients = [Client(await stack.enter_async_context(channel)) for channel in channels]
            for other in clients:
                await other.update("one")
            results = await asyncio.gather(
                *(other.update("one") for other in clients for _ in range(31)), return_exceptions=True
            )
        refused = [result for result in results if isinstance(result, grpc.aio.AioRpcError)]
        assert refused
        assert {error.details() for error in refused} == {"rate limit exceeds request timeout"}
        assert f'refused_requests_total{{reason="rate"}} {len(refused)}' in server.describe_metrics()

    run(test)


def test_clients_are_redirected() -> None:
    async def test(client: Client, _: DiscoveryServer) -> None:
        reply = await client.call("Hello", HelloRequest(cluster_id=CLUSTER), HelloResponse)
        assert reply.redirect.endpoint == "other.example.org:443"

    run(test, Settings(endpoint=LOOPBACK, metrics_port=-1, redirect="other.example.org:443"))


def test_it_serves_tls() -> None:
    authority = CertificateAuthority.generate(KeyType.P256, organizations=["test"])
    pair = authority.issue(ips=["127.0.0.1"], usages=Usage.SERVER)

    async def test(client: Client, _: DiscoveryServer) -> None:
        await client.update("one")
        assert len(await client.list()) == 1

    settings = Settings(endpoint=replace(LOOPBACK, tls=pair), metrics_port=-1)
    run(test, settings, authority)


def test_metrics_are_served_over_http() -> None:
    async def get(server: DiscoveryServer, head: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.metrics_port)
        writer.write(head)
        reply = await reader.read()
        writer.close()
        return reply

    async def test(client: Client, server: DiscoveryServer) -> None:
        await client.call("Hello", HelloRequest(cluster_id=CLUSTER, client_version='v"1\n'), HelloResponse)
        await client.update("one", b"data", b"endpoint")
        reply = await get(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\ndiscovery_state_affiliates 1\n" in reply
        assert b"\ndiscovery_state_endpoints 1\n" in reply
        assert b'\ndiscovery_server_hello_requests_total{client_version="v\\"1\\n"} 1\n' in reply
        assert (await get(server, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        assert (await get(server, b"POST /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405 ")
        assert await get(server, b"x" * 100_000) == b""

    run(test)


def test_mistakes_on_the_command_line_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for argv in (
        ["--cert", "x"],
        ["--cert", f"{tmp_path}/missing", "--key", "y"],
        ["--addr", "::1:3000"],
        ["--metrics-addr", "2122"],
        ["--addr", "192.0.2.1:1", "--metrics-addr", ""],
    ):
        assert main(argv) == 1
        assert capsys.readouterr().err.count("\n") == 1
