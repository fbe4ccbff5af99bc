"""How this node becomes a member of etcd's cluster."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import trio

from talos.api.definitions.etcd_pb2 import SpecSpec
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.arguments import make_initial_cluster, peer_urls
from talos.clusterd.etcd.members import STATUS_TIMEOUT, check_removal, is_alive
from talos.etcd import client as etcd
from talos.etcd.access import EtcdAccess
from talos.etcd.lock import JOIN, hold_lock
from talos.system.logging import Log

JOIN_TIMEOUT = 30 * 60.0
"""Seconds, as upstream."""
JOIN_RETRY_INTERVAL = 1.0
"""Seconds between two attempts: members become learners one after another, each for some seconds."""
MAX_RETRY_INTERVAL = 5.0  # seconds
RETRY_INTERVAL_GROWTH = 0.1
"""Seconds added after each attempt that no member answered: a node may wait for its bootstrap for long."""
LEARNER_TIMEOUT = 5 * 60.0
"""Seconds after which a learner that never started is removed, if no control plane node has its address."""
JOIN_LOCK_TTL = 60
"""Seconds after which the lock of a node that is gone is free; what it calls meanwhile takes 40 at most."""


class NameTakenError(RpcError):
    """A living member has this node's name: waiting does not help."""


class MemberJoin:
    """Adds this node to a cluster as a learner."""

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
            if not is_here and not is_earlier and await is_alive(self._access, member):
                raise NameTakenError(
                    Code.FAILED_PRECONDITION,
                    f'another node named "{name}" runs etcd at {", ".join(member.clientURLs)}: '
                    "give this node a hostname of its own",
                )
            await check_removal(self._access, client, member.ID)
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
