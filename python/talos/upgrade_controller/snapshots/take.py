"""One snapshot: from a member of etcd through its hash and age to its destination, in pieces."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import Data
from talos.api.machine import machine_pb2
from talos.api.machine_types import is_control_plane
from talos.api.rpc import RpcError
from talos.client.snapshot import SnapshotHash
from talos.fleet.calls import MACHINE, FleetCalls, limited_call
from talos.health.conditions import find_address
from talos.resource import kinds
from talos.system.errors import UserError
from talos.talosctl.client.command import raise_error
from talos.talosctl.output.age import encrypt
from talos.upgrade_controller.snapshots.destination import Destination

PIECE_TIMEOUT = 60.0
"""Seconds for the next piece of a member."""
MAX_LAG = 5000
"""Entries: etcd itself sends a snapshot to a member that lacks more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of etcd that can be called."""

    node: str
    hostname: str
    is_leader: bool
    applied: int
    errors: tuple[str, ...] = ()


async def find_members(calls: FleetCalls) -> list[Member]:
    """The members that have a leader, the one to call first before the others; UserError, RpcError."""
    nodes = {
        address: member.hostname
        for member in await calls.specs("", kinds.MEMBER)
        if is_control_plane(member.machine_type) and (address := find_address(member))
    }
    answers = await asyncio.gather(*(_fetch_member(calls, *node) for node in nodes.items()))
    found = [answer for answer in answers if isinstance(answer, Member)]
    if not found:
        reasons = "; ".join(str(answer) for answer in answers) or "discovery finds no control plane node"
        hint = "the certificate needs the role os:etcd:backup; see talosctl etcd status"
        raise UserError(f"no member of etcd can be called: {reasons}", where="snapshots", hint=hint)
    newest = max(member.applied for member in found)
    # A full database is an error of all members: it is the one to have a snapshot of.
    return sorted(
        found, key=lambda one: (bool(one.errors), newest - one.applied > MAX_LAG, one.is_leader, one.hostname)
    )


async def _fetch_member(calls: FleetCalls, node: str, hostname: str) -> Member | str:
    """A member, or why its node has none."""
    try:
        async with limited_call():
            method, reply = MACHINE + "EtcdStatus", machine_pb2.EtcdStatusResponse
            answer = await calls.unary(node, method, Empty(), reply)
    except RpcError as error:
        return f"{hostname}: {error.reason}"
    status = answer.messages[0].member_status if answer.messages else machine_pb2.EtcdMemberStatus()
    if status.is_learner or not status.leader:
        return f"{hostname}: {'is a learner' if status.is_learner else 'has no leader'}"
    return Member(
        node=node,
        hostname=hostname,
        is_leader=status.leader == status.member_id,
        applied=status.raft_applied_index,
        errors=tuple(status.errors),
    )


class SnapshotReader:
    """The replies of a call as a file that another thread reads. Its end is an error unless it is whole."""

    def __init__(self, pieces: AsyncIterator[Data], hostname: str) -> None:
        self._pieces, self._hostname = pieces, hostname
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._is_cancelled, self._next = False, Future[bytes]()
        self.hash = SnapshotHash()

    def read(self, size: int = -1, /) -> bytes:
        """At most so many bytes; UserError, RpcError."""
        if not self._rest:
            self._rest = self._fetch()
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def _fetch(self) -> bytes:
        self._next = asyncio.run_coroutine_threadsafe(self._receive(), self._loop)
        if self._is_cancelled:
            self._next.cancel()
        try:
            piece = self._next.result(PIECE_TIMEOUT)
        except TimeoutError:
            self._next.cancel()
            text = f"sent nothing for {PIECE_TIMEOUT:g} s"
            raise UserError(text, where=self._hostname, hint="see talosctl etcd status") from None
        self.hash.update(piece)
        if not piece and not self.hash.is_whole:
            hint = "it is taken again; see the log of etcd there"
            raise UserError("the snapshot is not whole", where=self._hostname, hint=hint)
        return piece

    async def _receive(self) -> bytes:
        async for piece in self._pieces:
            raise_error(piece)
            if piece.bytes:
                return piece.bytes
        return b""

    def cancel(self) -> None:
        """Have the reader fail; in the loop's thread."""
        self._is_cancelled = True
        self._next.cancel()


async def take_snapshot(
    calls: FleetCalls,
    member: Member,
    destination: Destination,
    recipients: Sequence[str],
    name: str,
    *,
    limit: float,
) -> int:
    """Bring a member's snapshot to its destination, in ``limit`` seconds; its size. UserError, RpcError."""
    request = machine_pb2.EtcdSnapshotRequest()
    scope = asyncio.timeout(limit)
    try:
        async with scope, calls.stream(member.node, MACHINE + "EtcdSnapshot", request, Data) as pieces:
            reader = SnapshotReader(pieces, member.hostname)
            try:
                await asyncio.to_thread(_upload, reader, destination, recipients, name)
            finally:
                reader.cancel()
    except TimeoutError:
        if not scope.expired():
            raise
        text = f"the snapshot is not whole after {limit:g} s"
        hint = "look at the network to the node and to the place, or raise snapshots.timeout"
        raise UserError(text, where=member.hostname, hint=hint) from None
    return reader.hash.size


def _upload(reader: SnapshotReader, destination: Destination, recipients: Sequence[str], name: str) -> None:
    upload = destination.begin(name)
    try:
        encrypt(reader, upload, recipients, where="snapshots.recipients")
        upload.commit()
    except BaseException:
        with suppress(UserError):
            upload.abort()
        raise
