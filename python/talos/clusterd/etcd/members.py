"""The members of etcd's cluster: which of them are healthy, and which one may be removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import trio

from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.etcd import client as etcd
from talos.etcd.access import EtcdAccess

STATUS_TIMEOUT = 10.0  # seconds
"""For each member to answer; members are called at the same time."""
STATUS_RETRY_INTERVAL = 1.0  # seconds
"""Until a member that has not answered is called again: it may be slow, or just start anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """The members of a cluster. ``healthy`` are the ids of those that answer."""

    members: Sequence[pb.Member]
    healthy: frozenset[int]


async def _answers(access: EtcdAccess, member: pb.Member) -> bool:
    for url in member.clientURLs:
        try:
            async with access.member(urlsplit(url).hostname or "") as client:
                await client.status(etcd.FIND_TIMEOUT)
        except RpcError:
            continue
        return True
    return False


async def is_alive(access: EtcdAccess, member: pb.Member) -> bool:
    """Whether a member answers within :data:`STATUS_TIMEOUT`."""
    with trio.move_on_after(STATUS_TIMEOUT):
        while True:
            if await _answers(access, member):
                return True
            await trio.sleep(STATUS_RETRY_INTERVAL)
    return False


async def fetch_status(access: EtcdAccess, client: etcd.EtcdClient, *, besides: int) -> MemberStatus:
    """Probe every member but one."""
    members, healthy = await client.members(linearizable=False), set[int]()

    async def probe(member: pb.Member) -> None:
        if await is_alive(access, member):
            healthy.add(member.ID)

    async with trio.open_nursery() as nursery:
        for member in members:
            if besides != member.ID:
                nursery.start_soon(probe, member)
    return MemberStatus(members=members, healthy=frozenset(healthy))


async def check_removal(access: EtcdAccess, client: etcd.EtcdClient, member: int) -> None:
    """Refuse to remove a member when those that stay would have no quorum."""
    check_status(await fetch_status(access, client, besides=member), member)


def check_status(status: MemberStatus, member: int) -> None:
    """RpcError when a member is not there, is the only one, or is needed for the quorum."""
    found = {one.ID: one for one in status.members}
    if member not in found:
        raise RpcError(Code.NOT_FOUND, etcd.MEMBER_NOT_FOUND)
    if found[member].isLearner:
        return
    staying = [one.ID for one in status.members if member != one.ID and not one.isLearner]
    if not staying:
        text = "it is the only voting member of etcd: without it the cluster's data is lost"
        raise RpcError(Code.FAILED_PRECONDITION, text)
    needed, healthy = len(staying) // 2 + 1, len(status.healthy & set(staying))
    if healthy < needed:
        raise RpcError(
            Code.FAILED_PRECONDITION,
            f"without it etcd has {len(staying)} voting members of which {healthy} are healthy, "
            f"its quorum needs {needed}: repair or replace the others first",
        )
