"""Calls through apid and the router to this node and to others."""

# gRPC's type stubs know no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from grpc.aio import EOF  # pyright: ignore[reportAttributeAccessIssue]

from talos.api.common import common_pb2 as common
from talos.api.google.rpc import status_pb2
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import Code, RpcError
from talos.daemon.grpc_call import GrpcCall
from talos.daemon.limits import MAX_MESSAGE
from talos.daemon.raw import OK, Status

from .world import (
    EVENTS,
    GET,
    READ,
    RECOVER,
    RUN,
    TIME,
    VERSION,
    Backend,
    Node,
    Pki,
    call,
    client,
    free_port,
    node,
    run,
)

NOT_SUPPORTED = "proxying is not supported for method"


async def versions(call: GrpcCall, tag: str) -> Status:
    """Answers Version with a tag, every stream with what fits its kind."""
    match call.method:
        case _ if call.method in {READ, EVENTS}:
            request = await call.receive() or b""
            for number in range(3):
                await call.send(
                    common.Data(bytes=b"%s-%s-%d" % (tag.encode(), request, number)).SerializeToString()
                )
        case _ if call.method == RECOVER:
            parts: list[bytes] = []
            while (message := await call.receive()) is not None:
                parts.append(message)
            reply = machine.EtcdRecoverResponse()
            reply.messages.add()
            await call.send_headers((("parts", b"+".join(parts).decode()),))
            await call.send(reply.SerializeToString())
        case _ if call.method == RUN:
            while (message := await call.receive()) is not None:
                await call.send(tag.encode() + b":" + message)
        case _:
            await call.receive()
            reply = machine.VersionResponse()
            reply.messages.add().version.tag = tag
            await call.send(reply.SerializeToString())
    return OK


def tagged(tag: str) -> Backend:
    async def backend(call: GrpcCall) -> Status:
        return await versions(call, tag)

    return backend


@asynccontextmanager
async def two_nodes(
    tmp_path: Path, pki: Pki, first: Backend, second: Backend, **options: Any
) -> AsyncGenerator[tuple[Node, Node]]:
    port = free_port()
    async with (
        node(tmp_path / "a", pki, first, host="127.0.0.1", port=port, **options) as a,
        node(tmp_path / "b", pki, second, host="127.0.0.2", port=port) as b,
    ):
        a.api.own.set_addresses([bytes([127, 0, 0, 1])])
        a.api.own.set_hostname("node-a", "example.org")
        yield a, b


def tags(reply: bytes) -> dict[str, str]:
    """Which node said what, of a merged reply."""
    messages = machine.VersionResponse.FromString(reply).messages
    return {message.metadata.hostname: message.version.tag for message in messages}


class TestLocal:
    def test_without_metadata_the_node_itself_answers_unchanged(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("a")) as a,
                client(a, pki, pki.client("os:reader")) as channel,
            ):
                reply = machine.VersionResponse.FromString(await call(channel))
                assert [message.version.tag for message in reply.messages] == ["a"]
                assert not reply.messages[0].HasField("metadata")

        pki = Pki()
        run(test)

    def test_every_kind_of_stream(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("a")) as a,
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                frames = [frame async for frame in channel.unary_stream(READ)(b"x")]
                assert [common.Data.FromString(frame).bytes for frame in frames] == [
                    b"a-x-0",
                    b"a-x-1",
                    b"a-x-2",
                ]

                upload = channel.stream_unary(RECOVER)(iter([b"1", b"2", b"3"]))
                assert len(machine.EtcdRecoverResponse.FromString(await upload).messages) == 1
                assert ("parts", "1+2+3") in list(await upload.initial_metadata())

                both = channel.stream_stream(RUN)()
                for word in (b"hello", b"world"):
                    await both.write(word)
                    assert await both.read() == b"a:" + word
                await both.done_writing()
                assert await both.read() is EOF
                assert await both.code() is grpc.StatusCode.OK

        pki = Pki()
        run(test)

    def test_metadata_passes_both_ways(self, tmp_path: Path) -> None:
        seen: dict[str, Any] = {}

        async def backend(call: GrpcCall) -> Status:
            await call.receive()
            seen["metadata"] = call.metadata
            await call.send_headers((("first", "1"), ("first", "2"), ("raw-bin", b"\0\xff")))
            await call.send(b"")
            return Status(trailers=(("last", "3"), ("also-bin", b"\x01")))

        async def test() -> None:
            async with (
                node(tmp_path, pki, backend) as a,
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                pairs = (("runtime", "Talos"), ("key", "one"), ("key", "two"), ("data-bin", b"\xfe\0"))
                rpc = channel.unary_unary(VERSION)(b"", metadata=(*pairs, ("talos-role", "os:forged")))
                await rpc
                assert list(await rpc.initial_metadata()) == [
                    ("first", "1"),
                    ("first", "2"),
                    ("raw-bin", b"\0\xff"),
                ]
                assert set(await rpc.trailing_metadata()) >= {("last", "3"), ("also-bin", b"\x01")}
                assert seen["metadata"] == (*pairs, ("talos-role", "os:admin"))

        pki = Pki()
        run(test)

    @pytest.mark.parametrize("method", [VERSION, READ, RECOVER, RUN])
    def test_status_and_details_pass(self, tmp_path: Path, method: str) -> None:
        details = status_pb2.Status(code=9, message="no: 100 % ü\n")
        details.details.add(type_url="x/y", value=b"abc")

        async def backend(call: GrpcCall) -> Status:
            await call.receive()
            packed = details.SerializeToString()
            return Status(
                code=Code.FAILED_PRECONDITION,
                message=details.message,
                trailers=(("grpc-status-details-bin", packed), ("why", "because")),
            )

        async def test() -> None:
            async with (
                node(tmp_path, pki, backend) as a,
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                rpc = channel.stream_stream(method)(iter([b""]))
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await rpc.read()
                error = caught.value
                assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
                assert error.details() == "no: 100 % ü\n"
                trailers = dict(error.trailing_metadata())
                assert trailers["why"] == "because"
                assert (
                    status_pb2.Status.FromString(cast("bytes", trailers["grpc-status-details-bin"]))
                    == details
                )

        pki = Pki()
        run(test)

    def test_time_service_is_timeds(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("machined"), timed=tagged("timed")) as a,
                client(a, pki, pki.client("os:reader")) as channel,
            ):
                assert tags(await call(channel, TIME)) == {"": "timed"}

        pki = Pki()
        run(test)

    def test_backend_that_is_not_there(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("machined")) as a,
                client(a, pki, pki.client("os:reader")) as channel,
            ):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(channel, TIME)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                assert (caught.value.details() or "").startswith("timed can't be reached: ")

        pki = Pki()
        run(test)


class TestRoles:
    @pytest.mark.parametrize(
        ("roles", "method", "allowed"),
        [
            (["os:reader"], VERSION, True),
            (["os:reader"], READ, False),
            (["os:admin"], READ, True),
            (["os:etcd:backup"], VERSION, False),
            (["os:nonsense"], VERSION, False),
            ([], VERSION, False),
            (["os:impersonator"], VERSION, False),
            (["os:reader"], "/machine.MachineService/Unheard", False),
        ],
    )
    def test_matrix(self, tmp_path: Path, roles: list[str], method: str, *, allowed: bool) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("a")) as a,
                client(a, pki, pki.client(*roles)) as channel,
            ):
                rpc = channel.stream_stream(method)(iter([b""]))
                if allowed:
                    assert await rpc.read()
                    return
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await rpc.read()
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
                assert caught.value.details() == "not authorized"

        pki = Pki()
        run(test)

    def test_only_an_impersonator_may_name_roles(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with node(tmp_path, pki, tagged("a")) as a:
                async with client(a, pki, pki.client("os:impersonator")) as channel:
                    await call(channel, metadata={"talos-role": ["os:reader", "os:operator"]})
                async with client(a, pki, pki.client("os:reader")) as channel:
                    with pytest.raises(grpc.aio.AioRpcError, match="not authorized"):
                        await call(channel, RECOVER, metadata={"talos-role": "os:admin"})

        pki = Pki()
        run(test)

    def test_unknown_service_for_an_admin(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("a")) as a,
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                for path in ("/securityapi.SecurityService/Certificate", "/no.Such/Thing"):
                    with pytest.raises(grpc.aio.AioRpcError, match="unknown service") as caught:
                        await call(channel, path)
                    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED

        pki = Pki()
        run(test)


class TestAudit:
    def test_what_a_reader_may_not_do_is_on_record(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("a")) as a,
                client(a, pki, pki.client("os:reader", common_name="eve")) as channel,
            ):
                await call(channel)
                with pytest.raises(grpc.aio.AioRpcError):
                    await call(channel, "/machine.MachineService/Reboot", metadata={"node": "127.0.0.1"})
                (record,) = [record for record in a.records if record["msg"] == "audit"]
                assert record["method"] == "/machine.MachineService/Reboot"
                assert record["peer"].startswith("127.0.0.1:")
                assert (record["name"], record["roles"]) == ("eve", ["os:reader"])
                assert (record["nodes"], record["result"]) == (["127.0.0.1"], "PermissionDenied")

        pki = Pki()
        run(test)

    def test_metadata_for_many_nodes(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("a")) as a,
                client(a, pki, pki.client("os:reader"), **{"grpc.max_metadata_size": 65536}) as channel,
            ):
                reply = await call(channel, metadata={"nodes": ["127.0.0.1"] * 400})
                assert len(machine.VersionResponse.FromString(reply).messages) == 400

        pki = Pki()
        run(test)


class TestOtherNodes:
    def test_node_goes_to_the_other_node_unchanged(self, tmp_path: Path) -> None:
        seen: list[tuple[str, str | bytes]] = []

        async def second(call: GrpcCall) -> Status:
            seen.extend(call.metadata)
            return await versions(call, "b")

        async def test() -> None:
            async with (
                two_nodes(tmp_path, pki, tagged("a"), second) as (a, _),
                client(a, pki, pki.client("os:reader", "os:operator")) as channel,
            ):
                assert tags(await call(channel, metadata={"node": "127.0.0.2", "x": "y"})) == {"": "b"}
                assert ("x", "y") in seen
                assert [value for key, value in seen if key == "talos-role"] == ["os:operator", "os:reader"]
                assert ("proxyfrom", f"127.0.0.1:{a.port}") in seen
                assert not {"node", "nodes", ":authority"} & {key for key, _ in seen}

        pki = Pki()
        run(test)

    def test_all_streams_go_to_the_other_node(self, tmp_path: Path) -> None:
        async def test() -> None:
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

        pki = Pki()
        run(test)

    def test_nodes_merge_a_unary_reply(self, tmp_path: Path) -> None:
        async def test() -> None:
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

        pki = Pki()
        run(test)

    def test_a_failed_node_is_an_element(self, tmp_path: Path) -> None:
        async def failing(call: GrpcCall) -> Status:
            await call.receive()
            raise RpcError(Code.NOT_FOUND, "nothing here", (common.Error(message="detail"),))

        async def test() -> None:
            async with (
                two_nodes(tmp_path, pki, tagged("a"), failing) as (a, _),
                client(a, pki, pki.client("os:reader")) as channel,
            ):
                reply = await call(channel, metadata={"nodes": ["127.0.0.1", "127.0.0.2", "127.0.0.3"]})
                elements = {
                    m.metadata.hostname: m for m in machine.VersionResponse.FromString(reply).messages
                }
                assert elements["127.0.0.1"].version.tag == "a"
                failed = elements["127.0.0.2"].metadata
                assert failed.error == "rpc error: code = NotFound desc = nothing here"
                assert failed.status.code == Code.NOT_FOUND
                assert failed.status.details[0].TypeName() == "common.Error"
                gone = elements["127.0.0.3"].metadata
                assert gone.status.code == Code.UNAVAILABLE
                assert "refused" in gone.error

        pki = Pki()
        run(test)

    def test_nodes_interleave_a_stream(self, tmp_path: Path) -> None:
        async def test() -> None:
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

        pki = Pki()
        run(test)

    def test_nodes_share_a_client_stream(self, tmp_path: Path) -> None:
        got: dict[str, list[bytes]] = {"a": [], "b": []}

        def collecting(name: str) -> Backend:
            async def backend(call: GrpcCall) -> Status:
                while (message := await call.receive()) is not None:
                    got[name].append(message)
                reply = machine.EtcdRecoverResponse()
                reply.messages.add()
                await call.send(reply.SerializeToString())
                return OK

            return backend

        async def test() -> None:
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

        pki = Pki()
        run(test)

    def test_own_name_and_address_stay_here(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with (
                two_nodes(tmp_path, pki, tagged("a"), tagged("b"), worker=True) as (a, _),
                client(a, pki, pki.client("os:reader")) as channel,
            ):
                for own in ("127.0.0.1", "node-a", "NODE-A.example.org"):
                    assert tags(await call(channel, metadata={"node": own})) == {"": "a"}
                assert tags(await call(channel, metadata={"nodes": "node-a"})) == {"node-a": "a"}

        pki = Pki()
        run(test)

    @pytest.mark.parametrize("key", ["node", "nodes"])
    def test_a_worker_does_not_forward(self, tmp_path: Path, key: str) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("a"), worker=True) as a,
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(channel, metadata={key: "127.0.0.2"})
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
                assert caught.value.details() == "no request forwarding"

        pki = Pki()
        run(test)

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
    def test_targets_that_are_refused(
        self, tmp_path: Path, method: str, metadata: dict[str, Any], code: str, text: str | None
    ) -> None:
        async def test() -> None:
            async with (
                node(tmp_path, pki, tagged("a")) as a,
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(channel, method, metadata=metadata)
                assert caught.value.code().name == code
                assert text is None or caught.value.details() == text

        pki = Pki()
        run(test)

    def test_unreachable_and_foreign_nodes(self, tmp_path: Path) -> None:
        async def test() -> None:
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

        pki = Pki()
        run(test)

    def test_proxyfrom_stops_a_second_hop(self, tmp_path: Path) -> None:
        async def test() -> None:
            async with (
                two_nodes(tmp_path, pki, tagged("a"), tagged("b")) as (a, _),
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                reply = await call(channel, metadata={"node": "127.0.0.2", "proxyfrom": "somewhere"})
                assert tags(reply) == {"": "a"}

        pki = Pki()
        run(test)

    def test_maintenance_answers_here_for_a_reader(self, tmp_path: Path) -> None:
        seen: list[tuple[str, str | bytes]] = []

        async def backend(call: GrpcCall) -> Status:
            seen.extend(call.metadata)
            return await versions(call, "a")

        async def test() -> None:
            async with (
                node(tmp_path, pki, backend, maintenance=True) as a,
                client(a, pki, None) as channel,
            ):
                reply = await call(channel, metadata={"node": "127.0.0.2", "talos-role": "os:admin"})
                assert tags(reply) == {"": "a"}
                assert ("talos-role", "os:reader") in seen
                assert ("talos-role", "os:admin") not in seen

        pki = Pki()
        run(test)


class TestEnds:
    @pytest.mark.parametrize("target", ["127.0.0.1", "127.0.0.2"])
    @pytest.mark.parametrize("method", [VERSION, READ, RUN])
    def test_cancelling_reaches_the_backend(self, tmp_path: Path, method: str, target: str) -> None:
        async def test() -> None:
            begun, cancelled = asyncio.Event(), asyncio.Event()

            async def backend(call: GrpcCall) -> Status:
                await call.receive()
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()
                return OK

            async with (
                two_nodes(tmp_path, pki, backend, backend) as (a, _),
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                rpc = channel.stream_stream(method)(iter([b""]), metadata=(("node", target),))
                await asyncio.wait_for(begun.wait(), 10)
                rpc.cancel()
                await asyncio.wait_for(cancelled.wait(), 10)

        pki = Pki()
        run(test)

    def test_a_lost_connection_cancels(self, tmp_path: Path) -> None:
        async def test() -> None:
            begun, cancelled = asyncio.Event(), asyncio.Event()

            async def backend(call: GrpcCall) -> Status:
                await call.receive()
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()
                return OK

            async with node(tmp_path, pki, backend) as a:
                async with client(a, pki, pki.client("os:admin")) as channel:
                    rpc = channel.unary_stream(READ)(b"")
                    await asyncio.wait_for(begun.wait(), 10)
                assert rpc.cancelled()
                await asyncio.wait_for(cancelled.wait(), 10)

        pki = Pki()
        run(test)

    @pytest.mark.parametrize("target", ["127.0.0.1", "127.0.0.2"])
    @pytest.mark.parametrize("method", [VERSION, READ, RUN])
    def test_deadlines_reach_the_backend_and_end_the_call(
        self, tmp_path: Path, method: str, target: str
    ) -> None:
        async def test() -> None:
            remaining: list[float | None] = []

            async def backend(call: GrpcCall) -> Status:
                remaining.append(call.time_remaining())
                await asyncio.Event().wait()
                return OK

            async with (
                two_nodes(tmp_path, pki, backend, backend) as (a, _),
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                begin = time.monotonic()
                rpc = channel.stream_stream(method)(iter([b""]), metadata=(("node", target),), timeout=1.0)
                assert await rpc.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                assert 0.9 < time.monotonic() - begin < 5
                assert remaining[0] is not None
                assert 0.2 < remaining[0] <= 1.0

        pki = Pki()
        run(test)

    def test_messages_up_to_the_limit(self, tmp_path: Path) -> None:
        async def echo(call: GrpcCall) -> Status:
            await call.send(await call.receive() or b"")
            return OK

        async def test() -> None:
            async with (
                node(tmp_path, pki, echo) as a,
                client(a, pki, pki.client("os:admin")) as channel,
            ):
                message = bytes(MAX_MESSAGE - 16)
                assert await call(channel, request=message) == message
                for method in (VERSION, READ, RUN, RECOVER):
                    rpc = channel.stream_stream(method)(iter([bytes(33 * 1024 * 1024)]))
                    assert await rpc.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                    assert (
                        await rpc.details()
                        == "grpc: received message larger than max (34603008 vs. 33554432)"
                    )
                # The same connection goes on.
                assert await call(channel, request=b"x") == b"x"

        pki = Pki()
        run(test)
