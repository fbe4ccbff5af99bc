"""``talosctl etcd``."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.machine import machine_pb2 as machine
from talos.client.session import Session
from talos.system.errors import UserError
from talos.system.sizes import format_pretty_size
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag
from talos.talosctl.client.command import (
    NodeCall,
    Row,
    ignore,
    parts,
    run_each,
    run_table,
)
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.commands.etcd_snapshots import run_decrypt_snapshot, run_snapshot

_SERVICE = "/machine.MachineService/"
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


async def _fetch_members(session: Session, node: str) -> list[machine.EtcdMember]:
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


async def _fetch_status(session: Session, node: str) -> list[machine.EtcdMemberStatus]:
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


async def _fetch_alarms(session: Session, node: str) -> list[machine.EtcdMemberAlarm]:
    reply = await session.unary(node, _SERVICE + "EtcdAlarmList", Empty(), machine.EtcdAlarmListResponse)
    return [alarm for part in parts(reply, machine.EtcdAlarm) for alarm in part.member_alarms]


async def _disarm(session: Session, node: str) -> list[machine.EtcdMemberAlarm]:
    reply = await session.unary(node, _SERVICE + "EtcdAlarmDisarm", Empty(), machine.EtcdAlarmDisarmResponse)
    return [alarm for part in parts(reply, machine.EtcdAlarmDisarm) for alarm in part.member_alarms]


def _alarm_rows(node: str, alarms: list[machine.EtcdMemberAlarm]) -> Iterable[Row]:
    for alarm in alarms:
        yield (node, f"{alarm.member_id:016x}", machine.EtcdMemberAlarm.AlarmType.Name(alarm.alarm))


def _run_alarms(invocation: Invocation, call: NodeCall[list[machine.EtcdMemberAlarm]]) -> int:
    """No output is no alarm, as upstream: scripts look at nothing else."""
    return run_table(invocation, ALARM_HEADER, call, _alarm_rows, shows_empty=False)


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

    async def call_node(session: Session, node: str) -> Sequence[machine.EtcdRemoveMemberByID]:
        path = _SERVICE + "EtcdRemoveMemberByID"
        reply = await session.unary(node, path, request, machine.EtcdRemoveMemberByIDResponse)
        return list(parts(reply, machine.EtcdRemoveMemberByID))

    return run_each(invocation, call_node, ignore)


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

        async def call_node(session: Session, node: str) -> Downgraded:
            return await call(session, node, version)

        def rows(node: str, versions: Downgraded) -> Iterable[Row]:
            return ((node, f"{message}, cluster version {version}") for version in versions)

        return run_table(invocation, ("NODE", "MESSAGE"), call_node, rows)

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
                    run=lambda invocation: _run_alarms(invocation, _fetch_alarms),
                ),
                Command(
                    name="disarm",
                    summary="Clear the alarms",
                    flags=(OUTPUT,),
                    run=lambda invocation: _run_alarms(invocation, _disarm),
                ),
            ),
        ),
        Command(
            name="decrypt-snapshot",
            usage="<path> <target path>",
            summary="Decrypt a snapshot that was encrypted with age",
            details="Those of the upgrade controller are. The target is written only when it is whole.",
            example="talosctl etcd decrypt-snapshot --identity backup.key db.snapshot.age db.snapshot",
            minimum=2,
            maximum=2,
            flags=(
                Flag(
                    name="identity",
                    short="i",
                    required=True,
                    help="the file with the private key: of age-keygen, or an SSH key without a passphrase",
                ),
            ),
            run=run_decrypt_snapshot,
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
                    summary="Check whether a version can be reached",
                    minimum=1,
                    maximum=1,
                    flags=(OUTPUT,),
                    run=_run_downgrade(_validate, "downgrade validate success"),
                ),
                Command(
                    name="enable",
                    usage="<version>",
                    summary="Begin the downgrade",
                    minimum=1,
                    maximum=1,
                    flags=(OUTPUT,),
                    run=_run_downgrade(_enable, "downgrade enable success"),
                ),
                Command(
                    name="cancel",
                    summary="End the downgrade",
                    flags=(OUTPUT,),
                    run=_run_downgrade(_cancel, "downgrade cancel success"),
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
            run=lambda invocation: run_table(invocation, MEMBER_HEADER, _fetch_members, _member_rows),
        ),
        Command(
            name="remove-member",
            usage="<member ID>",
            summary="Remove a member that will not come back",
            minimum=1,
            maximum=1,
            run=run_remove_member,
        ),
        Command(
            name="snapshot",
            usage="<path>",
            summary="Save a snapshot into a file",
            minimum=1,
            maximum=1,
            run=run_snapshot,
        ),
        Command(
            name="status",
            summary="Show each member's state",
            flags=(OUTPUT,),
            run=lambda invocation: run_table(invocation, STATUS_HEADER, _fetch_status, _status_rows),
        ),
    ),
)
