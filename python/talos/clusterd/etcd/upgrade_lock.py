"""Whether this node may be down for an upgrade: one node at a time, and only from a healthy cluster."""

from urllib.parse import urlsplit

import trio

from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.etcd import client as etcd
from talos.etcd.access import EtcdAccess
from talos.etcd.lock import UPGRADE, LockedError, release_all, release_lease, take_lock

MEMBERS_WITHOUT_SPARE = 2
"""Members of which none may be down."""


class UpgradeLock:
    """The lock of upgrades, in etcd."""

    def __init__(self, access: EtcdAccess) -> None:
        self._access = access

    async def take_when_safe(self, lease: int) -> None:
        """Take the lock, if etcd survives that this node is down.

        ABORTED while another node has it, UNAVAILABLE while a member does not answer: both may pass, and the
        caller repeats the call. The lock stays with this node even so, until :meth:`release` of the same
        lease or its end by time.
        """
        holder = (await self._access.spec()).name
        async with self._access.any() as client:
            await take_lock(client, UPGRADE, holder, lease)
            await self._check_members(client)

    async def take(self, lease: int) -> str:
        """Take the lock of upgrades, however the members are; the reason when another node has it."""
        holder = (await self._access.spec()).name
        async with self._access.any() as client:
            try:
                await take_lock(client, UPGRADE, holder, lease)
            except LockedError as error:
                return error.reason
        return ""

    async def release(self, lease: int) -> None:
        """Give back what was taken under a lease."""
        async with self._access.any() as client:
            await release_lease(client, lease)

    async def release_earlier(self, lease: int) -> None:
        """Give back what this node has taken under every other lease."""
        holder = (await self._access.spec()).name
        async with self._access.any() as client:
            await release_all(client, UPGRADE, holder, but=lease)

    async def _check_members(self, client: etcd.EtcdClient) -> None:
        members = await client.members()
        if len(members) == MEMBERS_WITHOUT_SPARE:
            count = len(members)
            text = f"etcd member count({count}) is insufficient to maintain quorum if upgrade commences"
            raise RpcError(Code.FAILED_PRECONDITION, text)
        reasons: dict[int, str] = {}

        async def probe(member: pb.Member) -> None:
            reasons[member.ID] = await self._find_weakness(member)

        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(probe, member)
        for member in members:
            if reason := reasons[member.ID]:
                raise RpcError(Code.UNAVAILABLE, reason)

    async def _find_weakness(self, member: pb.Member) -> str:
        """Why a member is not healthy, empty when it answers a read through the quorum."""
        if not member.name:
            return f"etcd member {member.ID:016x} is not started, can't perform a safe upgrade"
        reason = "it has no address"
        for url in member.clientURLs:
            try:
                async with self._access.member(urlsplit(url).hostname or "") as client:
                    await client.check_quorum()
            except RpcError as error:
                reason = error.reason
            else:
                return ""
        return (
            f"etcd member {member.name} is not healthy; "
            f"all etcd members must be healthy to perform an upgrade: {reason}"
        )
