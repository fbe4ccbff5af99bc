"""EtcdMemberController: this node's member of etcd, once it runs."""

from collections.abc import Iterable

import trio

from talos.api.definitions.etcd_pb2 import MemberSpec, SpecSpec
from talos.api.etcd import rpc_pb2 as pb
from talos.api.rpc import RpcError
from talos.clusterd.etcd.arguments import peer_urls
from talos.etcd.access import EtcdAccess
from talos.etcd.client import EtcdClient
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log

STARTING = 1.0
"""Seconds between attempts to reach a member that starts, and to promote a learner."""


class EtcdMemberController(Reconciler):
    """Service of etcd, EtcdSpec → EtcdMember; beside it, a learner is promoted and URLs are kept current."""

    name = "etcd.MemberController"
    inputs = (Input(*ids.ETCD_SERVICE), Input(*ids.ETCD_SPEC))
    outputs = (Output(kinds.ETCD_MEMBER),)

    def __init__(self, access: EtcdAccess, log: Log) -> None:
        self._access = access
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Work until the member votes under its present addresses; another round comes with every change."""
        service = await runtime.get_or_none(*ids.ETCD_SERVICE)
        spec = await runtime.get_or_none(*ids.ETCD_SPEC)
        if spec is None or service is None or not service.spec.running:
            if spec is None or service is None:
                await runtime.remove(*ids.ETCD_MEMBER)
            return
        try:
            async with self._access.local() as client:
                status = await client.status()
                own = status.header.member_id
                await runtime.put(*ids.ETCD_MEMBER, MemberSpec(member_id=f"{own:016x}"))
                # A learner does not answer who the members are.
                members = [] if status.isLearner else await client.members(linearizable=False)
            if status.isLearner:
                await self._promote(own, spec.spec)
                runtime.queue_reconcile()
            elif _has_moved(members, own, spec.spec):
                async with self._access.any() as client:
                    await self._announce(client, own, spec.spec)
        except RpcError as error:
            self._log.once(f"etcd's member is not ready: {error.reason}", key="member", level="info")
            await trio.sleep(STARTING)
            runtime.queue_reconcile()

    async def _promote(self, own: int, spec: SpecSpec) -> None:
        # A learner does not promote itself, nor pass the request on.
        async with self._access.other() as client:
            # The leader sends to the address that it has; without what it sends a learner can't be promoted.
            if _has_moved(await client.members(), own, spec):
                await self._announce(client, own, spec)
            await client.promote(own)
        self._log.info("this node votes in etcd now", member=f"{own:016x}")

    async def _announce(self, client: EtcdClient, own: int, spec: SpecSpec) -> None:
        """Announce to the others under which addresses this member is reached now."""
        urls = peer_urls(spec)
        await client.update_member(own, urls)
        self._log.info("the addresses of this node's member have changed", urls=", ".join(urls))


def _has_moved(members: Iterable[pb.Member], own: int, spec: SpecSpec) -> bool:
    """Whether the members have other addresses of this one than it has."""
    return any(own == member.ID and set(member.peerURLs) != set(peer_urls(spec)) for member in members)
