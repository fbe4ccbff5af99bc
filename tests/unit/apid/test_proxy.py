"""Calls through apid and the router to this node."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import json
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from grpc.aio import EOF  # pyright: ignore[reportAttributeAccessIssue]

from talos.api.common import common_pb2 as common
from talos.api.google.rpc import status_pb2
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import Code
from talos.process import audit
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import Status
from talos.system.logging import Log

from .backends import tagged, tags, versions
from .world import (
    READ,
    RECOVER,
    RUN,
    TIME,
    VERSION,
    Pki,
    call,
    client,
    node,
)

pytestmark = pytest.mark.asyncio


REBOOT = "/machine.MachineService/Reboot"


class TestCaller:
    @pytest.mark.parametrize("name", ["Café", "x ", "OS:ADMIN", "os:admin ", "system:masters", "os:", "os:1"])
    async def test_organizations_that_are_no_roles_are_left_out(
        self, tmp_path: Path, name: str, pki: Pki
    ) -> None:
        seen: list[Any] = []

        async def backend(call: ServerCall) -> Status:
            seen.extend(value for key, value in call.metadata if key == "talos-role")
            return await versions(call, "a")

        async with (
            node(tmp_path, pki, backend) as a,
            client(a, pki, pki.client("os:reader", name)) as channel,
        ):
            await call(channel)
            assert seen == ["os:reader"]


class TestLocal:
    async def test_without_metadata_the_node_itself_answers_unchanged(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, tagged("a")) as a,
            client(a, pki, pki.client("os:reader")) as channel,
        ):
            reply = machine.VersionResponse.FromString(await call(channel))
            assert [message.version.tag for message in reply.messages] == ["a"]
            assert not reply.messages[0].HasField("metadata")

    async def test_every_kind_of_stream(self, tmp_path: Path, pki: Pki) -> None:
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

    async def test_metadata_passes_both_ways(self, tmp_path: Path, pki: Pki) -> None:
        seen: dict[str, Any] = {}

        async def backend(call: ServerCall) -> Status:
            await call.receive()
            seen["metadata"] = call.metadata
            await call.send_headers((("first", "1"), ("first", "2"), ("raw-bin", b"\0\xff")))
            await call.send(b"")
            return Status(trailers=(("last", "3"), ("also-bin", b"\x01")))

        async with (
            node(tmp_path, pki, backend) as a,
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            pairs = (("runtime", "Talos"), ("key", "one"), ("key", "two"), ("data-bin", b"\xfe\0"))
            forged = (("talos-role", "os:forged"), ("talos-caller", "192.0.2.1"))
            rpc = channel.unary_unary(VERSION)(b"", metadata=(*pairs, *forged))
            await rpc
            assert list(await rpc.initial_metadata()) == [
                ("first", "1"),
                ("first", "2"),
                ("raw-bin", b"\0\xff"),
            ]
            assert set(await rpc.trailing_metadata()) >= {("last", "3"), ("also-bin", b"\x01")}
            connection = (("talos-caller", "127.0.0.1"), ("talos-reached", "127.0.0.1"))
            assert seen["metadata"] == (*pairs, ("talos-role", "os:admin"), *connection)

    @pytest.mark.parametrize("method", [VERSION, READ, RECOVER, RUN])
    async def test_status_and_details_pass(self, tmp_path: Path, method: str, pki: Pki) -> None:
        details = status_pb2.Status(code=9, message="no: 100 % ü\n")
        details.details.add(type_url="x/y", value=b"abc")

        async def backend(call: ServerCall) -> Status:
            await call.receive()
            packed = details.SerializeToString()
            return Status(
                code=Code.FAILED_PRECONDITION,
                message=details.message,
                trailers=(("grpc-status-details-bin", packed), ("why", "because")),
            )

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
            assert status_pb2.Status.FromString(cast("bytes", trailers["grpc-status-details-bin"])) == details

    async def test_time_service_is_timeds(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, tagged("machined"), timed=tagged("timed")) as a,
            client(a, pki, pki.client("os:reader")) as channel,
        ):
            assert tags(await call(channel, TIME)) == {"": "timed"}

    async def test_backend_that_is_not_there(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, tagged("machined")) as a,
            client(a, pki, pki.client("os:reader")) as channel,
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(channel, TIME)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert (caught.value.details() or "").startswith("timed can't be reached: ")


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
    async def test_matrix(
        self, tmp_path: Path, roles: list[str], method: str, *, allowed: bool, pki: Pki
    ) -> None:
        async with (
            node(tmp_path, pki, tagged("a")) as a,
            client(a, pki, pki.client(*roles)) as channel,
        ):
            rpc = channel.unary_stream(method)(b"")
            if allowed:
                assert await rpc.read()
                return
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await rpc.read()
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert caught.value.details() == "not authorized"

    async def test_only_an_impersonator_may_name_roles(self, tmp_path: Path, pki: Pki) -> None:
        async with node(tmp_path, pki, tagged("a")) as a:
            async with client(a, pki, pki.client("os:impersonator")) as channel:
                await call(channel, metadata={"talos-role": ["os:reader", "os:operator"]})
            async with client(a, pki, pki.client("os:reader")) as channel:
                with pytest.raises(grpc.aio.AioRpcError, match="not authorized"):
                    await call(channel, RECOVER, metadata={"talos-role": "os:admin"})

    async def test_unknown_service_for_an_admin(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, tagged("a")) as a,
            client(a, pki, pki.client("os:admin")) as channel,
        ):
            for path in ("/securityapi.SecurityService/Certificate", "/no.Such/Thing"):
                with pytest.raises(grpc.aio.AioRpcError, match="unknown service") as caught:
                    await call(channel, path)
                assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


class TestCallLog:
    async def test_each_call_is_a_line(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, tagged("a")) as a,
            client(a, pki, pki.client("os:reader")) as channel,
        ):
            await call(channel, metadata={"talos-caller": "192.0.2.1"})
            with pytest.raises(grpc.aio.AioRpcError):
                await call(channel, REBOOT)
            lines = [record["msg"] for record in a.records if "stream" in record["msg"]]
            assert [line.split()[:2] for line in lines] == [
                ["OK", f"[{VERSION}]"],
                ["PermissionDenied", f"[{REBOOT}]"],
            ]
            assert "peer=127.0.0.1" in lines[0]
            assert "192.0.2.1" not in lines[0]


class TestAudit:
    async def test_what_a_reader_may_not_do_is_on_record(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, tagged("a")) as a,
            client(a, pki, pki.client("os:reader", common_name="eve")) as channel,
        ):
            await call(channel)
            with pytest.raises(grpc.aio.AioRpcError):
                await call(channel, REBOOT, metadata={"node": "127.0.0.1"})
            (record,) = [record for record in a.records if record["msg"] == "audit"]
            assert record["method"] == REBOOT
            assert record["peer"].startswith("127.0.0.1:")
            assert (record["name"], record["roles"]) == ("eve", ["os:reader"])
            assert (record["nodes"], record["result"]) == (["127.0.0.1"], "PermissionDenied")

    async def test_a_debug_container_is_on_record_before_it_runs(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, tagged("a")) as a,
            client(a, pki, pki.client("os:admin", common_name="root")) as admin,
            client(a, pki, pki.client("os:reader", common_name="eve")) as reader,
        ):
            with pytest.raises(grpc.aio.AioRpcError):
                await reader.stream_stream(RUN)().read()
            rpc = admin.stream_stream(RUN)()
            await rpc.write(b"")
            await rpc.read()
            records = [record for record in a.records if record["msg"] == "audit"]
            assert [(record["name"], record["result"]) for record in records] == [
                ("eve", "PermissionDenied"),
                ("root", "started"),
            ]
            rpc.cancel()

    async def test_a_flood_of_calls_does_not_push_records_out(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki
    ) -> None:
        monkeypatch.setattr(audit, "BURST", 3)
        monkeypatch.setattr(audit, "PER_SECOND", 0.0)

        async with (
            node(tmp_path, pki, tagged("a")) as a,
            client(a, pki, pki.client(), **{"grpc.max_metadata_size": 65536}) as noisy,
            client(a, pki, pki.client("os:reader", common_name="eve")) as other,
        ):
            many = {"nodes": [f"{number}{'x' * 500}" for number in range(40)]}
            for channel, metadata in ((noisy, many),) * 10 + ((other, {}),):
                with pytest.raises(grpc.aio.AioRpcError):
                    await call(channel, REBOOT, metadata=metadata)
            records = [record for record in a.records if record["msg"] == "audit"]
            assert [record["name"] for record in records] == ["", "", "", "eve"]
            assert all(len(json.dumps(record)) < 4096 for record in records)
            assert (len(records[0]["nodes"]), records[0]["more_nodes"]) == (16, 24)
            assert len(records[0]["nodes"][0]) == 128

    def test_what_is_left_out_is_counted(self) -> None:
        lines: list[str] = []
        now = 0.0
        records = audit.Audit(Log(write=lines.append), lambda: now)

        def write(client: str) -> None:
            records.record(client, method="/m", peer="p", name="n", roles=(), nodes=(), result="OK")

        for _ in range(audit.BURST + 10):
            write("a")
        write("b")
        now = 2 / audit.PER_SECOND
        write("a")
        assert len(lines) == audit.BURST + 2
        assert json.loads(lines[-1])["left_out"] == 10

    async def test_metadata_for_many_nodes(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            node(tmp_path, pki, tagged("a")) as a,
            client(a, pki, pki.client("os:reader"), **{"grpc.max_metadata_size": 65536}) as channel,
        ):
            reply = await call(channel, metadata={"nodes": ["127.0.0.1"] * 400})
            assert len(machine.VersionResponse.FromString(reply).messages) == 400
