"""The calls of ``machine.MachineService`` about etcd."""

from collections.abc import Mapping

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import Data
from talos.api.etcd import rpc_pb2 as pb
from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.clusterd.etcd.removal import MemberRemoval
from talos.etcd.access import EtcdAccess
from talos.process.machine_type import require_control_plane
from talos.resource.state import State

CHUNK = 32 * 1024
"""Bytes of a snapshot in one frame."""


class EtcdService:
    """The handlers."""

    def __init__(self, state: State, access: EtcdAccess, removal: MemberRemoval) -> None:
        self._state = state
        self._access = access
        self._removal = removal

    def make_handlers(self) -> Mapping[str, Handler]:
        """By the names of their methods."""
        return {
            "EtcdMemberList": self.list_members,
            "EtcdRemoveMemberByID": self.remove_member,
            "EtcdForfeitLeadership": self.forfeit_leadership,
            "EtcdSnapshot": self.snapshot,
            "EtcdAlarmList": self.list_alarms,
            "EtcdAlarmDisarm": self.disarm_alarms,
            "EtcdDefragment": self.defragment,
            "EtcdStatus": self.status,
            "EtcdDowngradeValidate": self.validate_downgrade,
            "EtcdDowngradeEnable": self.enable_downgrade,
            "EtcdDowngradeCancel": self.cancel_downgrade,
        }

    async def list_members(
        self, request: machine.EtcdMemberListRequest, _call: Call
    ) -> machine.EtcdMemberListResponse:
        """The members, as this node's member or as any has them."""
        await require_control_plane(self._state, "member list")
        async with self._access.local() if request.query_local else self._access.any() as client:
            members = await client.members(linearizable=not request.query_local)
        found = [
            machine.EtcdMember(
                id=member.ID,
                hostname=member.name,
                peer_urls=member.peerURLs,
                client_urls=member.clientURLs,
                is_learner=member.isLearner,
            )
            for member in members
        ]
        names = [member.hostname for member in found]
        return machine.EtcdMemberListResponse(
            messages=[machine.EtcdMembers(legacy_members=names, members=found)]
        )

    async def remove_member(
        self, request: machine.EtcdRemoveMemberByIDRequest, _call: Call
    ) -> machine.EtcdRemoveMemberByIDResponse:
        """Remove a member that will not come back."""
        await require_control_plane(self._state, "etcd remove member by ID")
        await self._removal.remove(request.member_id)
        return machine.EtcdRemoveMemberByIDResponse(messages=[machine.EtcdRemoveMemberByID()])

    async def forfeit_leadership(
        self, _request: machine.EtcdForfeitLeadershipRequest, _call: Call
    ) -> machine.EtcdForfeitLeadershipResponse:
        """Move the leadership to another member."""
        await require_control_plane(self._state, "etcd forfeit leadership")
        leader = await self._removal.forfeit()
        message = machine.EtcdForfeitLeadership(member=leader)
        return machine.EtcdForfeitLeadershipResponse(messages=[message])

    async def snapshot(self, _request: machine.EtcdSnapshotRequest, _call: Call, send: Send) -> None:
        """This member's database."""
        await require_control_plane(self._state, "etcd snapshot")
        async with self._access.local() as client, client.snapshot() as pieces:
            async for piece in pieces:
                for start in range(0, len(piece.blob), CHUNK):
                    await send(Data(bytes=piece.blob[start : start + CHUNK]))

    async def list_alarms(self, _request: Empty, _call: Call) -> machine.EtcdAlarmListResponse:
        """The alarms of all members."""
        await require_control_plane(self._state, "etcd alarm list")
        async with self._access.local() as client:
            alarms = await client.alarm(pb.AlarmRequest(action=pb.AlarmRequest.GET))
        message = machine.EtcdAlarm(member_alarms=map(_make_alarm, alarms))
        return machine.EtcdAlarmListResponse(messages=[message])

    async def disarm_alarms(self, _request: Empty, _call: Call) -> machine.EtcdAlarmDisarmResponse:
        """Clear the alarms of all members; those that were cleared."""
        await require_control_plane(self._state, "etcd alarm disarm")
        disarmed: list[pb.AlarmMember] = []
        async with self._access.local() as client:
            for alarm in await client.alarm(pb.AlarmRequest(action=pb.AlarmRequest.GET)):
                disarmed += await client.alarm(
                    pb.AlarmRequest(
                        action=pb.AlarmRequest.DEACTIVATE, memberID=alarm.memberID, alarm=alarm.alarm
                    )
                )
        message = machine.EtcdAlarmDisarm(member_alarms=map(_make_alarm, disarmed))
        return machine.EtcdAlarmDisarmResponse(messages=[message])

    async def defragment(self, _request: Empty, _call: Call) -> machine.EtcdDefragmentResponse:
        """Rewrite this member's database; it serves nothing meanwhile."""
        await require_control_plane(self._state, "etcd defragment")
        async with self._access.local() as client:
            await client.defragment()
        return machine.EtcdDefragmentResponse(messages=[machine.EtcdDefragment()])

    async def status(self, _request: Empty, _call: Call) -> machine.EtcdStatusResponse:
        """This member's state."""
        await require_control_plane(self._state, "etcd status")
        async with self._access.local() as client:
            found = await client.status()
        status = machine.EtcdMemberStatus(
            storage_version=found.storageVersion,
            member_id=found.header.member_id,
            protocol_version=found.version,
            db_size=found.dbSize,
            db_size_in_use=found.dbSizeInUse,
            leader=found.leader,
            raft_index=found.raftIndex,
            raft_term=found.raftTerm,
            raft_applied_index=found.raftAppliedIndex,
            errors=found.errors,
            is_learner=found.isLearner,
        )
        return machine.EtcdStatusResponse(messages=[machine.EtcdStatus(member_status=status)])

    async def validate_downgrade(
        self, request: machine.EtcdDowngradeValidateRequest, _call: Call
    ) -> machine.EtcdDowngradeValidateResponse:
        """Whether the cluster may go to an older version."""
        await require_control_plane(self._state, "etcd downgrade validate")
        found = await self._downgrade(pb.DowngradeRequest.VALIDATE, _check_version(request.version))
        message = machine.EtcdDowngradeValidate(cluster_downgrade=found)
        return machine.EtcdDowngradeValidateResponse(messages=[message])

    async def enable_downgrade(
        self, request: machine.EtcdDowngradeEnableRequest, _call: Call
    ) -> machine.EtcdDowngradeEnableResponse:
        """Begin to go to an older version."""
        await require_control_plane(self._state, "etcd downgrade enable")
        found = await self._downgrade(pb.DowngradeRequest.ENABLE, _check_version(request.version))
        message = machine.EtcdDowngradeEnable(cluster_downgrade=found)
        return machine.EtcdDowngradeEnableResponse(messages=[message])

    async def cancel_downgrade(self, _request: Empty, _call: Call) -> machine.EtcdDowngradeCancelResponse:
        """Stay at the version that the cluster has."""
        await require_control_plane(self._state, "etcd downgrade cancel")
        message = machine.EtcdDowngradeCancel(
            cluster_downgrade=await self._downgrade(pb.DowngradeRequest.CANCEL)
        )
        return machine.EtcdDowngradeCancelResponse(messages=[message])

    async def _downgrade(
        self, action: pb.DowngradeRequest.DowngradeAction, version: str = ""
    ) -> machine.EtcdClusterDowngrade:
        async with self._access.local() as client:
            return machine.EtcdClusterDowngrade(cluster_version=await client.downgrade(action, version))


def _check_version(text: str) -> str:
    """A version as etcd takes it; INVALID_ARGUMENT for another text."""
    parts = text.removeprefix("v").split(".")
    if not 2 <= len(parts) <= 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise RpcError(Code.INVALID_ARGUMENT, f'"{text}" is no version of etcd, which look like 3.6 or 3.6.0')
    return ".".join(part.lstrip("0") or "0" for part in (*parts, "0")[:3])


def _make_alarm(alarm: pb.AlarmMember) -> machine.EtcdMemberAlarm:
    # The kinds have the same names here and there.
    return machine.EtcdMemberAlarm(member_id=alarm.memberID, alarm=pb.AlarmType.Name(alarm.alarm))
