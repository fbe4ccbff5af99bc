"""How this node becomes a member of etcd's cluster, and how it ceases to be one."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import trio

from talos.api.definitions.etcd_pb2 import SpecSpec
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.arguments import make_initial_cluster, peer_urls
from talos.etcd import client as etcd
from talos.etcd.access import EtcdAccess
from talos.etcd.lock import JOIN, UPGRADE, LockedError, hold_lock, release_all, release_lease, take_lock
from talos.system.logging import Log

# All in seconds, as upstream.
JOIN_TIMEOUT = 30 * 60.0
LEAVE_TIMEOUT = 5 * 60.0  # seconds
LEAVE_RETRY_INTERVAL = 10.0  # seconds

JOIN_RETRY_INTERVAL = 1.0
"""Between two attempts: members become learners one after another, each for some seconds."""
MAX_RETRY_INTERVAL = 5.0  # seconds
RETRY_INTERVAL_GROWTH = 0.1
"""Added after each attempt that no member answered: a node may wait for its bootstrap for long."""
LEARNER_TIMEOUT = 5 * 60.0  # seconds
"""After which a learner that never started, and whose address no control plane node has, is given up."""
JOIN_LOCK_TTL = 60
"""Seconds after which the lock of a node that is gone is free; what it calls meanwhile takes 40 at most."""
MEMBERS_WITHOUT_SPARE = 2
"""Members of which none may be down."""
STATUS_TIMEOUT = 10.0  # seconds
"""For each member to answer; members are called at the same time."""
STATUS_RETRY_INTERVAL = 1.0  # seconds
"""Until a member that has not answered is called again: it may be slow, or just start anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """The members of a cluster. ``healthy`` are the ids of those that answer."""

    members: Sequence[pb.Member]
    healthy: frozenset[int]


class NameTakenError(RpcError):
    """A living member has this node's name: waiting does not help."""


class Membership:
    """This node's part in etcd's cluster."""

    def __init__(self, access: EtcdAccess, log: Log) -> None:
        self._access = access
        self._log = log
        self._added: int | None = None
        """The learner that was added for this node last."""
        self._waiting: dict[int, float] = {}
        """Since when a learner is in the way, by its id."""

    async def join(self, spec: SpecSpec) -> str:
        """Wait until this node is a learner of the cluster; the value of ``--initial-cluster``.

        NameTakenError; DEADLINE_EXCEEDED with the last reason after :data:`JOIN_TIMEOUT`.
        """
        reason, pause = "no control plane node has answered", JOIN_RETRY_INTERVAL
        with trio.move_on_after(JOIN_TIMEOUT):
            while True:
                try:
                    async with self._access.other() as client:
                        return await self._add(client, spec)
                except NameTakenError:
                    raise
                except RpcError as error:
                    reason, is_alone = error.reason, error.code is Code.UNAVAILABLE
                    shown = "no member answers" if is_alone else reason
                    pause = (
                        min(pause + RETRY_INTERVAL_GROWTH, MAX_RETRY_INTERVAL)
                        if is_alone
                        else JOIN_RETRY_INTERVAL
                    )
                    self._log.once(f"waiting to join etcd: {shown}", key="join", level="info")
                await trio.sleep(pause)
        raise RpcError(Code.DEADLINE_EXCEEDED, f"could not join etcd: {reason}")

    async def _add(self, client: etcd.EtcdClient, spec: SpecSpec) -> str:
        urls = peer_urls(spec)
        members = await client.members()
        own = await self._clear_way(client, members, spec.name, urls)
        if own is None:
            await self._check_learners(client, members)  # one that waits has no need for the lock
            async with hold_lock(client, JOIN, ",".join(urls), JOIN_LOCK_TTL):
                await self._check_learners(client, await client.members())
                added = await client.add_learner(urls)
            own, members = added.member.ID, list(added.members)
            self._added = own
            self._log.info("added to etcd as a learner", member=f"{own:016x}", through=client.endpoint)
        return ",".join(
            make_initial_cluster(
                spec.name if own == member.ID else member.name or f"{member.ID:016x}", member.peerURLs
            )
            for member in members
        )

    async def _clear_way(
        self, client: etcd.EtcdClient, members: Iterable[pb.Member], name: str, urls: Sequence[str]
    ) -> int | None:
        """Remove what is left of an earlier life of this node; the member that was added but never started.

        The data directory is empty: a member that once ran here must not come back under its old id.
        """
        for member in members:
            is_here = bool(set(member.peerURLs) & set(urls))
            if is_here and not member.name and set(member.peerURLs) == set(urls):
                return member.ID
            is_earlier = self._added == member.ID and not member.name
            if not is_here and not is_earlier and member.name != name:
                continue
            if not is_here and not is_earlier and await self._is_alive(member):
                raise NameTakenError(
                    Code.FAILED_PRECONDITION,
                    f'another node named "{name}" runs etcd at {", ".join(member.clientURLs)}: '
                    "give this node a hostname of its own",
                )
            await self.check_removal(client, member.ID)
            await client.remove_member(member.ID)
            self._log.info("removed the former member of this node", member=f"{member.ID:016x}", name=name)
            members = await client.members()
            return await self._clear_way(client, members, name, urls)
        return None

    async def _check_learners(self, client: etcd.EtcdClient, members: Sequence[pb.Member]) -> None:
        """FAILED_PRECONDITION while another node is a learner: etcd takes one at a time.

        It refuses a second one only when that is in its log. A member that starts anew takes such an entry
        for a peer, and calls it for as long as it runs. So of nodes that join at the same time one at a time
        looks and is added, under a lock.

        A learner that never started is removed once it has been in the way for :data:`LEARNER_TIMEOUT`: its
        node has got another address, or is gone, and is not recognized as it has no name. It has no vote; a
        node that was only slow is added again at its start.
        """
        learners = [member for member in members if member.isLearner]
        peers, now = set(await self._access.peers()), trio.current_time()
        self._waiting = {member.ID: self._waiting.get(member.ID, now) for member in learners}
        for member in learners:
            hosts = {urlsplit(url).hostname for url in member.peerURLs}
            shown = ", ".join(member.peerURLs)
            if member.name or now < self._waiting[member.ID] + LEARNER_TIMEOUT or hosts & peers:
                raise RpcError(Code.FAILED_PRECONDITION, f"etcd takes one learner at a time, {shown} is one")
            await client.remove_member(member.ID)
            self._log.info("removed a learner that never started", member=f"{member.ID:016x}", urls=shown)

    async def _answers(self, member: pb.Member) -> bool:
        for url in member.clientURLs:
            try:
                async with self._access.member(urlsplit(url).hostname or "") as client:
                    await client.status(etcd.FIND_TIMEOUT)
            except RpcError:
                continue
            return True
        return False

    async def _is_alive(self, member: pb.Member) -> bool:
        """Whether a member answers within :data:`STATUS_TIMEOUT`."""
        with trio.move_on_after(STATUS_TIMEOUT):
            while True:
                if await self._answers(member):
                    return True
                await trio.sleep(STATUS_RETRY_INTERVAL)
        return False

    async def fetch_status(self, client: etcd.EtcdClient, *, besides: int) -> MemberStatus:
        """Probe every member but one."""
        members, healthy = await client.members(linearizable=False), set[int]()

        async def probe(member: pb.Member) -> None:
            if await self._is_alive(member):
                healthy.add(member.ID)

        async with trio.open_nursery() as nursery:
            for member in members:
                if besides != member.ID:
                    nursery.start_soon(probe, member)
        return MemberStatus(members=members, healthy=frozenset(healthy))

    async def check_removal(self, client: etcd.EtcdClient, member: int) -> None:
        """Refuse to remove a member when those that stay would have no quorum."""
        status = await self.fetch_status(client, besides=member)
        check_removal(status, member)

    async def remove(self, member: int) -> None:
        """Remove any member; NOT_FOUND, FAILED_PRECONDITION when that would cost the quorum."""
        async with self._access.any() as client:
            await self.check_removal(client, member)
            await client.remove_member(member)
        self._log.info("removed a member of etcd", member=f"{member:016x}")

    async def check_leave(self) -> None:
        """Refuse when the others need this node's member."""
        async with self._access.local() as client:
            own = (await client.status()).header.member_id
        async with self._access.any() as client:
            await self.check_removal(client, own)

    async def check_no_member(self) -> None:
        """Refuse when this node has a member, by those that others list: its own data is not needed.

        FAILED_PRECONDITION; UNAVAILABLE when no other node answers.
        """
        spec = await self._access.spec()
        async with self._access.other() as client:
            members = await client.members()
        urls = set(peer_urls(spec))
        for member in members:
            if member.name == spec.name or urls & set(member.peerURLs):
                text = f"etcd has the member {member.ID:016x} of this node"
                raise RpcError(Code.FAILED_PRECONDITION, text)

    async def check_upgrade(self, lease: int) -> None:
        """Refuse while etcd would not survive that this node is down, or another node upgrades.

        This node has the lock then, unless another one has it, until :meth:`end_upgrade` of the same lease or
        its end by time. ABORTED while another node has it, UNAVAILABLE while a member does not answer: both
        may pass, and it is the caller that waits, and that gives the lock back.
        """
        holder = (await self._access.spec()).name
        async with self._access.any() as client:
            await take_lock(client, UPGRADE, holder, lease)
            await self._require_safety(client)

    async def lock_upgrade(self, lease: int) -> str:
        """Take the lock of upgrades, however the members are; the reason when another node has it."""
        holder = (await self._access.spec()).name
        async with self._access.any() as client:
            try:
                await take_lock(client, UPGRADE, holder, lease)
            except LockedError as error:
                return error.reason
        return ""

    async def end_upgrade(self, lease: int) -> None:
        """Give back what was taken under a lease."""
        async with self._access.any() as client:
            await release_lease(client, lease)

    async def end_earlier_upgrades(self, lease: int) -> None:
        """Give back what this node has taken under every other lease."""
        holder = (await self._access.spec()).name
        async with self._access.any() as client:
            await release_all(client, UPGRADE, holder, but=lease)

    async def _require_safety(self, client: etcd.EtcdClient) -> None:
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

    async def leave(self) -> None:
        """Remove this node's own member; tried again while the cluster is not healthy enough for it."""
        async with self._access.local() as client:
            own = (await client.status()).header.member_id
        with suppress(RpcError):
            await self.forfeit()  # else the others would first have to notice that the leader is gone
        reason = ""
        with trio.move_on_after(LEAVE_TIMEOUT):
            while True:
                try:
                    await self.remove(own)
                except RpcError as error:
                    if error.code is Code.NOT_FOUND:
                        return
                    if error.message != etcd.UNHEALTHY and error.code is not Code.UNAVAILABLE:
                        raise
                    reason = error.reason
                else:
                    return
                await trio.sleep(LEAVE_RETRY_INTERVAL)
        raise RpcError(Code.DEADLINE_EXCEEDED, f"could not leave etcd: {reason}")

    async def forfeit(self) -> str:
        """Have another member lead if this one does; the new leader's name, empty when nothing changed."""
        async with self._access.local() as client:
            status = await client.status()
            own = status.header.member_id
            if status.leader != own:
                return ""
            status = await self.fetch_status(client, besides=own)
            candidates = [
                member for member in status.members if not member.isLearner and member.ID in status.healthy
            ]
            if not candidates:
                raise RpcError(Code.FAILED_PRECONDITION, "no other member of etcd is healthy and may lead")
            await client.move_leader(candidates[0].ID)
            return candidates[0].name

    async def check_no_cluster(self) -> None:
        """Refuse when another control plane node runs etcd: that cluster is the one to join.

        One that is slow has :data:`STATUS_TIMEOUT`: taken for none, there would be two clusters.
        """
        found: list[str] = []

        async def probe(address: str) -> None:
            with suppress(RpcError):
                async with self._access.member(address) as client:
                    await client.status(STATUS_TIMEOUT)
                found.append(address)

        async with trio.open_nursery() as nursery:
            for address in await self._access.peers():
                nursery.start_soon(probe, address)
        if found:
            raise RpcError(
                Code.ALREADY_EXISTS,
                f"etcd runs on {min(found)} already, this node joins it by itself: bootstrap only one node",
            )


def check_removal(status: MemberStatus, member: int) -> None:
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
