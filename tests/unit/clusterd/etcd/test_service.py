"""The calls of etcd that clusterd answers, with a member of a test's."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import Data
from talos.api.etcd import rpc_pb2 as pb
from talos.api.machine import machine_pb2 as machine
from talos.api.resource import config_pb2
from talos.api.rpc import Call, Code, RpcError
from talos.clusterd.etcd.service import CHUNK, EtcdService
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState

CALL = cast("Call", None)
"""What these handlers take and don't read."""


class Member:
    """A member, what it has been called for, and the way to it. No other one answers."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.alarms = [
            pb.AlarmMember(memberID=7, alarm=pb.NOSPACE),
            pb.AlarmMember(memberID=8, alarm=pb.CORRUPT),
        ]

    @asynccontextmanager
    async def local(self) -> AsyncGenerator["Member"]:
        self.done.append("local")
        yield self

    @asynccontextmanager
    async def any(self) -> AsyncGenerator["Member"]:
        self.done.append("any")
        yield self

    async def members(self, *, linearizable: bool) -> Sequence[pb.Member]:
        self.done.append(linearizable)
        return [
            pb.Member(ID=7, name="cp-1", peerURLs=["p"], clientURLs=["c"]),
            pb.Member(ID=8, isLearner=True),
        ]

    async def alarm(self, request: pb.AlarmRequest) -> Sequence[pb.AlarmMember]:
        if request.action == pb.AlarmRequest.GET:
            return list(self.alarms)
        alarm = pb.AlarmMember(memberID=request.memberID, alarm=request.alarm)
        self.alarms.remove(alarm)
        return [alarm]

    async def downgrade(self, action: pb.DowngradeRequest.DowngradeAction, version: str) -> str:
        self.done.append((pb.DowngradeRequest.DowngradeAction.Name(action), version))
        return "3.6.0"

    @asynccontextmanager
    async def snapshot(self) -> AsyncGenerator[AsyncGenerator[pb.SnapshotResponse]]:
        async def pieces() -> AsyncGenerator[pb.SnapshotResponse]:
            for size in (2 * CHUNK + 1, 3):
                yield pb.SnapshotResponse(blob=bytes(size))

        yield pieces()


async def make_service(
    member: Member, kind: config_pb2.MachineType = config_pb2.CONTROL_PLANE
) -> EtcdService:
    state = MemoryState()
    await put(state, *ids.MACHINE_TYPE, config_pb2.MachineTypeSpec(machine_type=kind))
    given = cast("Any", member)
    return EtcdService(state, given, given)


@pytest.mark.parametrize("is_local", [False, True])
async def test_members_as_this_one_or_as_any_has_them(*, is_local: bool) -> None:
    member = Member()
    request = machine.EtcdMemberListRequest(query_local=is_local)
    (found,) = (await (await make_service(member)).list_members(request, CALL)).messages
    assert member.done == (["local", False] if is_local else ["any", True])
    assert found.legacy_members == ["cp-1", ""]
    assert [(one.id, one.hostname, one.is_learner) for one in found.members] == [
        (7, "cp-1", False),
        (8, "", True),
    ]
    assert (found.members[0].peer_urls, found.members[0].client_urls) == (["p"], ["c"])


async def test_every_alarm_is_disarmed() -> None:
    member = Member()
    service = await make_service(member)
    wanted = [(7, machine.EtcdMemberAlarm.NOSPACE), (8, machine.EtcdMemberAlarm.CORRUPT)]
    (listed,) = (await service.list_alarms(Empty(), CALL)).messages
    assert [(one.member_id, one.alarm) for one in listed.member_alarms] == wanted
    (disarmed,) = (await service.disarm_alarms(Empty(), CALL)).messages
    assert [(one.member_id, one.alarm) for one in disarmed.member_alarms] == wanted
    assert member.alarms == []


async def test_a_snapshot_is_sent_in_frames() -> None:
    frames: list[int] = []

    async def send(data: Data) -> None:
        frames.append(len(data.bytes))

    await (await make_service(Member())).snapshot(machine.EtcdSnapshotRequest(), CALL, cast("Any", send))
    assert frames == [CHUNK, CHUNK, 1, 3]


@pytest.mark.parametrize(
    ("text", "version"),
    [("3.6", "3.6.0"), ("v3.6.4", "3.6.4"), ("3.06", "3.6.0"), ("3.0.0", "3.0.0")],
)
async def test_a_downgrade(text: str, version: str) -> None:
    member = Member()
    service = await make_service(member)
    await service.validate_downgrade(machine.EtcdDowngradeValidateRequest(version=text), CALL)
    request = machine.EtcdDowngradeEnableRequest(version=text)
    (enabled,) = (await service.enable_downgrade(request, CALL)).messages
    await service.cancel_downgrade(Empty(), CALL)
    assert enabled.cluster_downgrade.cluster_version == "3.6.0"
    calls = [done for done in member.done if done != "local"]
    assert calls == [("VALIDATE", version), ("ENABLE", version), ("CANCEL", "")]


@pytest.mark.parametrize("text", ["", "3", "3.6.0.1", "3.x", "3.", "v", "³.6"])
async def test_what_is_no_version_is_refused(text: str) -> None:
    member = Member()
    service = await make_service(member)
    with pytest.raises(RpcError) as raised:
        await service.enable_downgrade(machine.EtcdDowngradeEnableRequest(version=text), CALL)
    assert raised.value.code is Code.INVALID_ARGUMENT
    assert member.done == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (config_pb2.WORKER, "is only available on control plane nodes"),
        (config_pb2.UNKNOWN, "machine type is not set"),
    ],
)
async def test_there_is_no_etcd_but_on_control_plane_nodes(kind: config_pb2.MachineType, text: str) -> None:
    member = Member()
    for name, handler in (await make_service(member, kind)).make_handlers().items():
        streams = [cast("Any", None)] if name == "EtcdSnapshot" else []
        with pytest.raises(RpcError, match=text) as raised:
            await handler(Empty(), CALL, *streams)
        assert raised.value.code is Code.UNIMPLEMENTED
    assert member.done == []
