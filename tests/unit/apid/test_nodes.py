"""Calls through one node to others."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc.aio import EOF  # pyright: ignore[reportAttributeAccessIssue]

from talos.api.common import common_pb2 as common
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import Code, RpcError
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.port.limits import Limits
from talos.rpc.protocol import OK, Status

from .backends import tagged, tags, two_nodes, versions
from .world import (
    GET,
    READ,
    RECOVER,
    RUN,
    VERSION,
    Backend,
    Pki,
    call,
    client,
    free_port,
    node,
)

pytestmark = pytest.mark.asyncio


class TestOtherNodes:
    async def test_node_goes_to_the_other_node_unchanged(self, tmp_path: Path, pki: Pki) -> None:
        seen: list[tuple[str, str | bytes]] = []

        async def second(call: ServerCall) -> Status:
            seen.extend(call.metadata)
            return await versions(call, "b")

        async with (
            two_nodes(tmp_path, pki, tagged("a"), second) as (a, _),
            client(a, pki, pki.client("os:reader", "os:operator")) as channel,
        ):
            assert tags(await call(channel, metadata={"node": "127.0.0.2", "x": "y"})) == {"": "b"}
            assert ("x", "y") in seen
            assert [value for key, value in seen if key == "talos-role"] == ["os:operator", "os:reader"]
            assert ("proxyfrom", f"127.0.0.1:{a.port}") in seen
            assert not {"node", "nodes", ":authority"} & {key for key, _ in seen}

    async def test_all_streams_go_to_the_other_node(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            two_nodes(tmp_path, pki, tagged("a"), tagged("b")) as (a, _),
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            to_b = (("node", "127.0.0.2"),)
            frames = [frame async for frame in channel.unary_stream(READ)(b"x", metadata=to_b)]
            assert [common.Data.FromString(frame).bytes for frame in frames] == [
                b"b-x-0",
                b"b-x-1",
                b"b-x-2",
            ]
            upload = channel.stream_unary(RECOVER)(iter([b"1", b"2"]), metadata=to_b)
            await upload
            assert ("parts", "1+2") in list(await upload.initial_metadata())
            both = channel.stream_stream(RUN)(metadata=to_b)
            await both.write(b"x")
            assert await both.read() == b"b:x"
            await both.done_writing()
            assert await both.read() is EOF

    async def test_nodes_merge_a_unary_reply(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            two_nodes(tmp_path, pki, tagged("a"), tagged("b")) as (a, _),
            client(a, pki, pki.client("os:reader")) as channel,
        ):
            reply = await call(channel, metadata={"nodes": ["127.0.0.1", "127.0.0.2"]})
            assert tags(reply) == {"127.0.0.1": "a", "127.0.0.2": "b"}
            assert tags(await call(channel, metadata={"nodes": "127.0.0.2"})) == {"127.0.0.2": "b"}
            # nodes wins
            reply = await call(channel, metadata={"nodes": "127.0.0.2", "node": "127.0.0.1"})
            assert tags(reply) == {"127.0.0.2": "b"}

    async def test_a_failed_node_is_an_element(self, tmp_path: Path, pki: Pki) -> None:
        async def failing(call: ServerCall) -> Status:
            await call.receive()
            raise RpcError(Code.NOT_FOUND, "nothing here", (common.Error(message="detail"),))

        async with (
            two_nodes(tmp_path, pki, tagged("a"), failing) as (a, _),
            client(a, pki, pki.client("os:reader")) as channel,
        ):
            reply = await call(channel, metadata={"nodes": ["127.0.0.1", "127.0.0.2", "127.0.0.3"]})
            elements = {m.metadata.hostname: m for m in machine.VersionResponse.FromString(reply).messages}
            assert elements["127.0.0.1"].version.tag == "a"
            failed = elements["127.0.0.2"].metadata
            assert failed.error == "rpc error: code = NotFound desc = nothing here"
            assert failed.status.code == Code.NOT_FOUND
            assert failed.status.details[0].TypeName() == "common.Error"
            missing = elements["127.0.0.3"].metadata
            assert missing.status.code == Code.UNAVAILABLE
            assert "refused" in missing.error

    async def test_nodes_interleave_a_stream(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            two_nodes(tmp_path, pki, tagged("a"), tagged("b")) as (a, _),
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            to_all = tuple(("nodes", host) for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3"))
            frames = [
                common.Data.FromString(frame)
                async for frame in channel.unary_stream(READ)(b"x", metadata=to_all)
            ]
            by_host: dict[str, list[bytes]] = {}
            for frame in frames:
                by_host.setdefault(frame.metadata.hostname, []).append(frame.bytes)
            assert by_host["127.0.0.1"] == [b"a-x-0", b"a-x-1", b"a-x-2"]
            assert by_host["127.0.0.2"] == [b"b-x-0", b"b-x-1", b"b-x-2"]
            (failed,) = [frame.metadata for frame in frames if frame.metadata.error]
            assert (failed.hostname, failed.status.code) == ("127.0.0.3", Code.UNAVAILABLE)

    async def test_nodes_share_a_client_stream(self, tmp_path: Path, pki: Pki) -> None:
        got: dict[str, list[bytes]] = {"a": [], "b": []}

        def collecting(name: str) -> Backend:
            async def backend(call: ServerCall) -> Status:
                while (message := await call.receive()) is not None:
                    got[name].append(message)
                reply = machine.EtcdRecoverResponse()
                reply.messages.add()
                await call.send(reply.SerializeToString())
                return OK

            return backend

        async with (
            two_nodes(tmp_path, pki, collecting("a"), collecting("b")) as (a, _),
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            parts = [b"%d" % number for number in range(50)]
            to_all = (("nodes", "127.0.0.1"), ("nodes", "127.0.0.2"))
            reply = await channel.stream_unary(RECOVER)(iter(parts), metadata=to_all)
            hosts = {m.metadata.hostname for m in machine.EtcdRecoverResponse.FromString(reply).messages}
            assert hosts == {"127.0.0.1", "127.0.0.2"}
            assert got == {"a": parts, "b": parts}

    async def test_own_name_and_address_stay_here(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            two_nodes(tmp_path, pki, tagged("a"), tagged("b"), worker=True) as (a, _),
            client(a, pki, pki.client("os:reader")) as channel,
        ):
            for own in ("127.0.0.1", "node-a", "NODE-A.example.org"):
                assert tags(await call(channel, metadata={"node": own})) == {"": "a"}
            assert tags(await call(channel, metadata={"nodes": "node-a"})) == {"node-a": "a"}

    @pytest.mark.parametrize("key", ["node", "nodes"])
    async def test_a_worker_does_not_forward(self, tmp_path: Path, key: str, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, tagged("a"), worker=True) as a,
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(channel, metadata={key: "127.0.0.2"})
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert caught.value.details() == "no request forwarding"

    @pytest.mark.parametrize(
        ("method", "metadata", "code", "text"),
        [
            (VERSION, {"node": ["a", "b"]}, "INVALID_ARGUMENT", "node metadata must be single-valued"),
            (
                GET,
                {"nodes": "a"},
                "INVALID_ARGUMENT",
                f"one-2-many proxying is not supported for method {GET}",
            ),
            (VERSION, {"node": "10.0.0.1:50000"}, "INTERNAL", 'invalid target "10.0.0.1:50000"'),
            (VERSION, {"nodes": ["127.0.0.1", ""]}, "INTERNAL", 'invalid target ""'),
            (VERSION, {"node": "unix:/system/run/machined/machine.sock"}, "INTERNAL", None),
            (VERSION, {"node": "a/b"}, "INTERNAL", 'invalid target "a/b"'),
        ],
    )
    async def test_targets_that_are_refused(
        self, tmp_path: Path, method: str, metadata: dict[str, Any], code: str, text: str | None, pki: Pki
    ) -> None:
        async with (
            node(tmp_path, pki, tagged("a")) as a,
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(channel, method, metadata=metadata)
            assert caught.value.code().name == code
            assert text is None or caught.value.details() == text

    async def test_unreachable_and_foreign_nodes(self, tmp_path: Path, pki: Pki) -> None:
        port = free_port()
        async with (
            node(tmp_path / "a", pki, tagged("a"), port=port) as a,
            node(tmp_path / "f", Pki(), tagged("f"), host="127.0.0.3", port=port),
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            for target in ("127.0.0.2", "127.0.0.3"):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(channel, metadata={"node": target})
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                assert (caught.value.details() or "").startswith(f"node {target} can't be reached: ")

    async def test_no_more_calls_than_the_other_node_takes(self, tmp_path: Path, pki: Pki) -> None:
        async def endless(call: ServerCall) -> Status:
            await call.receive()
            await call.send(b"")
            await asyncio.Event().wait()
            return OK

        port = free_port()
        to_b = (("node", "127.0.0.2"),)
        async with (
            node(tmp_path / "a", pki, tagged("a"), port=port) as a,
            node(tmp_path / "b", pki, endless, host="127.0.0.2", port=port, limits=Limits(streams=2)),
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            streams = [channel.unary_stream(READ)(b"", metadata=to_b) for _ in range(2)]
            for stream in streams:
                assert await stream.read() == b""
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(channel, metadata={"node": "127.0.0.2"})
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert not any(stream.done() for stream in streams)

    async def test_proxyfrom_stops_a_second_hop(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            two_nodes(tmp_path, pki, tagged("a"), tagged("b")) as (a, _),
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            reply = await call(channel, metadata={"node": "127.0.0.2", "proxyfrom": "somewhere"})
            assert tags(reply) == {"": "a"}

    async def test_maintenance_answers_here_for_a_reader(self, tmp_path: Path, pki: Pki) -> None:
        seen: list[tuple[str, str | bytes]] = []

        async def backend(call: ServerCall) -> Status:
            seen.extend(call.metadata)
            return await versions(call, "a")

        async with (
            node(tmp_path, pki, backend, maintenance=True) as a,
            client(a, pki, None) as channel,
        ):
            reply = await call(channel, metadata={"node": "127.0.0.2", "talos-role": "os:admin"})
            assert tags(reply) == {"": "a"}
            assert ("talos-role", "os:reader") in seen
            assert ("talos-role", "os:admin") not in seen
