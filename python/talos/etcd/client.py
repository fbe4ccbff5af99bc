"""etcd's API: calls to one member, and finding a member that answers."""

import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from google.protobuf.message import Message

from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError, Transport
from talos.rpc.bridge import Host
from talos.rpc.channel import open_remote
from talos.rpc.port.remote import RemoteServer

PORT, PEER_PORT = 2379, 2380
LOCAL = "127.0.0.1"

# All in seconds.
TIMEOUT = 10.0
"""Of one call; etcd's own limit of a request is 7 s and some."""
FIND_TIMEOUT = 3.0  # seconds
"""For a member to answer at all, when there are others to call."""
DEFRAGMENT_TIMEOUT = 600.0  # seconds
SNAPSHOT_TIMEOUT = 1800.0  # seconds

HEALTH_KEY = b"health"
_NEEDS_LEADER = {"hasleader": ["true"]}
"""With it a member without a leader refuses at once instead of after a timeout."""

UNHEALTHY = "etcdserver: unhealthy cluster"
MEMBER_NOT_FOUND = "etcdserver: member not found"


class EtcdClient:
    """Calls to one member. Failures are RpcError with etcd's code and text."""

    def __init__(self, transport: Transport, endpoint: str) -> None:
        self._transport = transport
        self.endpoint = endpoint

    async def check_quorum(self) -> None:
        """Read through the quorum; any answer will do, also that there is no such key."""
        await self._call("KV", "Range", pb.RangeRequest(key=HEALTH_KEY), pb.RangeResponse)

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        """Compare, then do one of two lists of operations, all at once."""
        return await self._call("KV", "Txn", request, pb.TxnResponse)

    async def grant_lease(self, seconds: int, lease: int = 0) -> int:
        """A lease, of an id that etcd chooses where none is given.

        Keys put under it disappear when it isn't kept alive for so long.
        """
        request = pb.LeaseGrantRequest(TTL=seconds, ID=lease)
        return (await self._call("Lease", "LeaseGrant", request, pb.LeaseGrantResponse)).ID

    async def revoke_lease(self, lease: int) -> None:
        """End a lease and its keys."""
        await self._call("Lease", "LeaseRevoke", pb.LeaseRevokeRequest(ID=lease), pb.LeaseRevokeResponse)

    async def keep_lease(self, lease: int) -> int:
        """Keep a lease alive once; its remaining seconds, 0 when it has ended."""
        path, request = "/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveRequest(ID=lease)
        stream = self._transport.stream(path, request, pb.LeaseKeepAliveResponse, timeout=TIMEOUT)
        async with stream as replies:
            async for reply in replies:
                return reply.TTL
        return 0

    async def members(self, *, linearizable: bool = True) -> list[pb.Member]:
        """All members; with ``linearizable`` as the quorum has them, else as this member does."""
        reply = await self.list_members(linearizable=linearizable)
        return list(reply.members)

    async def list_members(self, *, linearizable: bool = True) -> pb.MemberListResponse:
        """The same with the header, which has the id of the cluster and of the member that answers."""
        request = pb.MemberListRequest(linearizable=linearizable)
        return await self._call("Cluster", "MemberList", request, pb.MemberListResponse)

    async def add_learner(self, peer_urls: Sequence[str]) -> pb.MemberAddResponse:
        """Add a member that doesn't vote yet."""
        request = pb.MemberAddRequest(peerURLs=peer_urls, isLearner=True)
        return await self._call("Cluster", "MemberAdd", request, pb.MemberAddResponse)

    async def remove_member(self, member: int) -> None:
        """Remove a member; etcd refuses when the others would have no quorum."""
        request = pb.MemberRemoveRequest(ID=member)
        await self._call("Cluster", "MemberRemove", request, pb.MemberRemoveResponse)

    async def update_member(self, member: int, peer_urls: Sequence[str]) -> None:
        """Replace the URLs under which the others reach a member."""
        request = pb.MemberUpdateRequest(ID=member, peerURLs=peer_urls)
        await self._call("Cluster", "MemberUpdate", request, pb.MemberUpdateResponse)

    async def promote(self, member: int) -> None:
        """Let a learner vote; refused until it is in sync with the leader."""
        request = pb.MemberPromoteRequest(ID=member)
        await self._call("Cluster", "MemberPromote", request, pb.MemberPromoteResponse)

    async def status(self, seconds: float = TIMEOUT) -> pb.StatusResponse:
        """This member's state; it answers without a quorum, too."""
        request, reply = pb.StatusRequest(), pb.StatusResponse
        return await self._call("Maintenance", "Status", request, reply, seconds=seconds, needs_leader=False)

    async def alarm(self, request: pb.AlarmRequest) -> list[pb.AlarmMember]:
        """List alarms, or clear some."""
        return list((await self._call("Maintenance", "Alarm", request, pb.AlarmResponse)).alarms)

    async def defragment(self) -> None:
        """Rewrite this member's database; it serves nothing meanwhile."""
        request, reply = pb.DefragmentRequest(), pb.DefragmentResponse
        seconds = DEFRAGMENT_TIMEOUT
        await self._call("Maintenance", "Defragment", request, reply, seconds=seconds, needs_leader=False)

    async def move_leader(self, target: int) -> None:
        """Make another voting member the leader; only the leader does that."""
        await self._call(
            "Maintenance", "MoveLeader", pb.MoveLeaderRequest(targetID=target), pb.MoveLeaderResponse
        )

    async def downgrade(self, action: pb.DowngradeRequest.DowngradeAction, version: str = "") -> str:
        """Check, begin or cancel a downgrade; the version of the cluster."""
        request = pb.DowngradeRequest(action=action, version=version)
        return (await self._call("Maintenance", "Downgrade", request, pb.DowngradeResponse)).version

    def snapshot(self) -> AbstractAsyncContextManager[AsyncIterator[pb.SnapshotResponse]]:
        """This member's database, in pieces, followed by its hash."""
        path = "/etcdserverpb.Maintenance/Snapshot"
        return self._transport.stream(
            path, pb.SnapshotRequest(), pb.SnapshotResponse, timeout=SNAPSHOT_TIMEOUT
        )

    async def _call[R: Message](
        self,
        service: str,
        method: str,
        request: Message,
        reply: type[R],
        *,
        seconds: float = TIMEOUT,
        needs_leader: bool = True,
    ) -> R:
        path, metadata = f"/etcdserverpb.{service}/{method}", _NEEDS_LEADER if needs_leader else None
        return await self._transport.unary(path, request, reply, metadata=metadata, timeout=seconds)


@asynccontextmanager
async def open_member(host: Host, endpoint: str, context: ssl.SSLContext) -> AsyncGenerator[EtcdClient]:
    """A client of the member at an address."""
    server = RemoteServer(host=endpoint, port=PORT, context=context)
    async with open_remote(host.bridge, server) as transport:
        yield EtcdClient(transport, endpoint)


@asynccontextmanager
async def open_any(
    host: Host, endpoints: Iterable[str], context: ssl.SSLContext
) -> AsyncGenerator[EtcdClient]:
    """A client of the first member that answers and has a leader; else UNAVAILABLE with all reasons."""
    order = list(dict.fromkeys(endpoints))
    random.shuffle(order)  # spreads the load, not security relevant
    reasons: list[str] = []
    for endpoint in order:
        async with open_member(host, endpoint, context) as client:
            try:
                status = await client.status(FIND_TIMEOUT)
            except RpcError as error:
                reasons.append(f"{endpoint}: {error.reason}")
                continue
            if not status.leader or status.isLearner:
                reasons.append(f"{endpoint}: {'is a learner' if status.isLearner else 'has no leader'}")
                continue
            yield client
            return
    raise RpcError(
        Code.UNAVAILABLE, f"no etcd member answers: {'; '.join(sorted(reasons)) or 'none is known'}"
    )
