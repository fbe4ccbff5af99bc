"""``talosctl etcd``."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import Data
from talos.api.machine import machine_pb2 as machine
from talos.client.session import Session, open_session
from talos.system.errors import UserError
from talos.system.sizes import format_pretty_size
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import (
    Row,
    ignore,
    need_one_node,
    parts,
    raise_error,
    run_async,
    run_each,
    run_table,
)
from talos.talosctl.client.fanout import ask_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console

_SERVICE = "/machine.MachineService/"
HASH = 32
"""Bytes of the hash at the end of a snapshot."""
ALARM_HEADER = ("NODE", "MEMBER", "ALARM")
MEMBER_HEADER = ("NODE", "ID", "HOSTNAME", "PEER URLS", "CLIENT URLS", "LEARNER")
STATUS_HEADER = (
    "NODE",
    "MEMBER",
    "DB SIZE",
    "IN USE",
    "LEADER",
    "RAFT INDEX",
    "RAFT TERM",
    "RAFT APPLIED INDEX",
    "LEARNER",
    "PROTOCOL",
    "STORAGE",
    "ERRORS",
)


async def _ask_members(session: Session, node: str) -> list[machine.EtcdMember]:
    request = machine.EtcdMemberListRequest()
    reply = await session.unary(node, _SERVICE + "EtcdMemberList", request, machine.EtcdMemberListResponse)
    return [member for part in parts(reply, machine.EtcdMembers) for member in part.members]


def _member_rows(node: str, members: list[machine.EtcdMember]) -> Iterable[Row]:
    for member in members:
        yield (
            node,
            f"{member.id:016x}",
            member.hostname,
            ",".join(member.peer_urls),
            ",".join(member.client_urls),
            str(member.is_learner).lower(),
        )


async def _ask_status(session: Session, node: str) -> list[machine.EtcdMemberStatus]:
    reply = await session.unary(node, _SERVICE + "EtcdStatus", Empty(), machine.EtcdStatusResponse)
    return [part.member_status for part in parts(reply, machine.EtcdStatus)]


def _status_rows(node: str, statuses: list[machine.EtcdMemberStatus]) -> Iterable[Row]:
    for status in statuses:
        share = 100 * status.db_size_in_use / status.db_size if status.db_size else 0
        yield (
            node,
            f"{status.member_id:016x}",
            format_pretty_size(status.db_size),
            f"{format_pretty_size(status.db_size_in_use)} ({share:.2f}%)",
            f"{status.leader:016x}",
            str(status.raft_index),
            str(status.raft_term),
            str(status.raft_applied_index),
            str(status.is_learner).lower(),
            status.protocol_version,
            status.storage_version,
            ", ".join(status.errors),
        )


async def _ask_alarms(session: Session, node: str) -> list[machine.EtcdMemberAlarm]:
    reply = await session.unary(node, _SERVICE + "EtcdAlarmList", Empty(), machine.EtcdAlarmListResponse)
    return [alarm for part in parts(reply, machine.EtcdAlarm) for alarm in part.member_alarms]


async def _disarm(session: Session, node: str) -> list[machine.EtcdMemberAlarm]:
    reply = await session.unary(node, _SERVICE + "EtcdAlarmDisarm", Empty(), machine.EtcdAlarmDisarmResponse)
    return [alarm for part in parts(reply, machine.EtcdAlarmDisarm) for alarm in part.member_alarms]


def _alarm_rows(node: str, alarms: list[machine.EtcdMemberAlarm]) -> Iterable[Row]:
    for alarm in alarms:
        yield (node, f"{alarm.member_id:016x}", machine.EtcdMemberAlarm.AlarmType.Name(alarm.alarm))


async def _defragment(session: Session, node: str) -> Sequence[machine.EtcdDefragment]:
    reply = await session.unary(node, _SERVICE + "EtcdDefragment", Empty(), machine.EtcdDefragmentResponse)
    return list(parts(reply, machine.EtcdDefragment))


async def _leave(session: Session, node: str) -> Sequence[machine.EtcdLeaveCluster]:
    request = machine.EtcdLeaveClusterRequest()
    reply = await session.unary(
        node, _SERVICE + "EtcdLeaveCluster", request, machine.EtcdLeaveClusterResponse
    )
    return list(parts(reply, machine.EtcdLeaveCluster))


async def _forfeit(session: Session, node: str) -> Sequence[machine.EtcdForfeitLeadership]:
    reply = await session.unary(
        node,
        _SERVICE + "EtcdForfeitLeadership",
        machine.EtcdForfeitLeadershipRequest(),
        machine.EtcdForfeitLeadershipResponse,
    )
    return list(parts(reply, machine.EtcdForfeitLeadership))


def run_remove_member(invocation: Invocation) -> int:
    """Remove a member by its id."""
    text = invocation.args[0]
    try:
        request = machine.EtcdRemoveMemberByIDRequest(member_id=int(text, 16))
    except ValueError as error:
        raise UserError(
            f'"{text}" is no member ID', hint="an ID is 16 hexadecimal digits, see talosctl etcd members"
        ) from error

    async def ask(session: Session, node: str) -> Sequence[machine.EtcdRemoveMemberByID]:
        path = _SERVICE + "EtcdRemoveMemberByID"
        reply = await session.unary(node, path, request, machine.EtcdRemoveMemberByIDResponse)
        return list(parts(reply, machine.EtcdRemoveMemberByID))

    return run_each(invocation, ask, ignore)


def run_snapshot(invocation: Invocation) -> int:
    """Write a snapshot into a file; an unfinished one does not take its name."""
    path = Path(invocation.args[0])
    partial = path.with_name(path.name + ".part")

    async def ask(session: Session, node: str) -> None:
        request = machine.EtcdSnapshotRequest()
        async with session.stream(node, _SERVICE + "EtcdSnapshot", request, Data) as chunks:
            with partial.open("wb") as file:
                async for chunk in chunks:
                    raise_error(chunk)
                    file.write(chunk.bytes)
                size = file.tell()
        check_snapshot(partial)
        partial.rename(path)
        console.note(f'{node}: etcd snapshot saved to "{path}" ({size} bytes)')

    async def main() -> int:
        target = await find_target(invocation.flags)
        async with open_session(target) as session:
            outcomes = await ask_nodes(session, [need_one_node(target, "etcd snapshot")], ask)
            return report_failures(session, outcomes)

    try:
        return run_async(main())
    except OSError as error:
        raise UserError(error.strerror or str(error), where=str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def check_snapshot(path: Path) -> None:
    """Refuse a snapshot that is not whole: the last 32 bytes are the SHA-256 of all before."""
    left, digest = path.stat().st_size - HASH, hashlib.sha256()
    with path.open("rb") as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            digest.update(piece)
            left -= len(piece)
        if left < 0 or file.read() != digest.digest():
            raise UserError("the snapshot is not whole", where=str(path), hint="try again")


type Downgraded = list[str]


async def _validate(session: Session, node: str, version: str) -> Downgraded:
    request = machine.EtcdDowngradeValidateRequest(version=version)
    path = _SERVICE + "EtcdDowngradeValidate"
    reply = await session.unary(node, path, request, machine.EtcdDowngradeValidateResponse)
    return [part.cluster_downgrade.cluster_version for part in parts(reply, machine.EtcdDowngradeValidate)]


async def _enable(session: Session, node: str, version: str) -> Downgraded:
    request = machine.EtcdDowngradeEnableRequest(version=version)
    path = _SERVICE + "EtcdDowngradeEnable"
    reply = await session.unary(node, path, request, machine.EtcdDowngradeEnableResponse)
    return [part.cluster_downgrade.cluster_version for part in parts(reply, machine.EtcdDowngradeEnable)]


async def _cancel(session: Session, node: str, version: str) -> Downgraded:  # noqa: ARG001 - the shape of the three
    path = _SERVICE + "EtcdDowngradeCancel"
    reply = await session.unary(node, path, Empty(), machine.EtcdDowngradeCancelResponse)
    return [part.cluster_downgrade.cluster_version for part in parts(reply, machine.EtcdDowngradeCancel)]


def _run_downgrade(
    call: Callable[[Session, str, str], Awaitable[Downgraded]], message: str
) -> Callable[[Invocation], int]:
    def run(invocation: Invocation) -> int:
        version = invocation.args[0] if invocation.args else ""

        async def ask(session: Session, node: str) -> Downgraded:
            return await call(session, node, version)

        def rows(node: str, versions: Downgraded) -> Iterable[Row]:
            return ((node, message, version) for version in versions)

        return run_table(invocation, ("NODE", "MESSAGE", "CLUSTER VERSION"), ask, rows)

    return run


COMMAND = Command(
    name="etcd",
    summary="Look at and manage etcd",
    inherited=CLIENT_FLAGS,
    commands=(
        Command(
            name="alarm",
            summary="etcd's alarms",
            commands=(
                Command(
                    name="list",
                    summary="List the alarms",
                    flags=(OUTPUT,),
                    run=lambda invocation: run_table(invocation, ALARM_HEADER, _ask_alarms, _alarm_rows),
                ),
                Command(
                    name="disarm",
                    summary="Clear the alarms",
                    flags=(OUTPUT,),
                    run=lambda invocation: run_table(invocation, ALARM_HEADER, _disarm, _alarm_rows),
                ),
            ),
        ),
        Command(
            name="defrag",
            summary="Defragment the member's database",
            run=lambda invocation: run_each(invocation, _defragment, ignore),
        ),
        Command(
            name="downgrade",
            summary="Prepare etcd for an older version",
            commands=(
                Command(
                    name="validate",
                    usage="<version>",
                    summary="Ask whether a version can be reached",
                    least=1,
                    most=1,
                    flags=(OUTPUT,),
                    run=_run_downgrade(_validate, "downgrade validated"),
                ),
                Command(
                    name="enable",
                    usage="<version>",
                    summary="Begin the downgrade",
                    least=1,
                    most=1,
                    flags=(OUTPUT,),
                    run=_run_downgrade(_enable, "downgrade enabled"),
                ),
                Command(
                    name="cancel",
                    summary="End the downgrade",
                    flags=(OUTPUT,),
                    run=_run_downgrade(_cancel, "downgrade cancelled"),
                ),
            ),
        ),
        Command(
            name="forfeit-leadership",
            summary="Let another member lead",
            run=lambda invocation: run_each(invocation, _forfeit, ignore),
        ),
        Command(
            name="leave",
            summary="Leave the etcd cluster",
            run=lambda invocation: run_each(invocation, _leave, ignore),
        ),
        Command(
            name="members",
            summary="List the members",
            flags=(OUTPUT,),
            run=lambda invocation: run_table(invocation, MEMBER_HEADER, _ask_members, _member_rows),
        ),
        Command(
            name="remove-member",
            usage="<member ID>",
            summary="Remove a member that will not come back",
            least=1,
            most=1,
            run=run_remove_member,
        ),
        Command(
            name="snapshot",
            usage="<path>",
            summary="Save a snapshot into a file",
            least=1,
            most=1,
            run=run_snapshot,
        ),
        Command(
            name="status",
            summary="Show each member's state",
            flags=(OUTPUT,),
            run=lambda invocation: run_table(invocation, STATUS_HEADER, _ask_status, _status_rows),
        ),
    ),
)
