"""The service through which PID 1 has this node join etcd, leave it, and be down for an upgrade."""

from collections.abc import Awaitable, Callable, Mapping

from google.protobuf.empty_pb2 import Empty

from talos.api.internal import membership_pb2 as internal
from talos.api.rpc import Call, Handler, Service
from talos.clusterd.etcd.arguments import make_argv, make_initial_cluster, make_restore_argv, peer_urls
from talos.clusterd.etcd.join import MemberJoin
from talos.clusterd.etcd.removal import MemberRemoval
from talos.clusterd.etcd.upgrade_lock import UpgradeLock
from talos.etcd.access import EtcdAccess


class MembershipService:
    """The handlers. ``resign`` ends this node's part in all elections."""

    def __init__(
        self,
        access: EtcdAccess,
        join: MemberJoin,
        removal: MemberRemoval,
        upgrade_lock: UpgradeLock,
        resign: Callable[[], Awaitable[None]],
    ) -> None:
        self._access = access
        self._join = join
        self._removal = removal
        self._upgrade_lock = upgrade_lock
        self._resign = resign

    def make_service(self) -> Service:
        """The service with its handlers."""
        descriptor = internal.DESCRIPTOR.services_by_name["Membership"]
        handlers: Mapping[str, Handler] = {
            "Plan": self.plan,
            "CheckNoCluster": self.check_no_cluster,
            "Check": self.check,
            "CheckLeave": self.check_leave,
            "CheckNoMember": self.check_no_member,
            "CheckUpgrade": self.check_upgrade,
            "LockUpgrade": self.lock_upgrade,
            "EndUpgrade": self.end_upgrade,
            "EndEarlierUpgrades": self.end_earlier_upgrades,
            "Leave": self.leave,
            "Resign": self.resign,
        }
        return Service(descriptor, handlers)

    async def plan(self, request: internal.PlanRequest, _call: Call) -> internal.PlanResponse:
        """How etcd starts next; waits to be a member of a cluster if it has neither data nor an order."""
        spec = await self._access.spec()
        own = make_initial_cluster(spec.name, peer_urls(spec))
        is_new = request.start == internal.PlanRequest.NEW
        # Invalid extra arguments of the config are refused before anything changes.
        plan = internal.PlanResponse(
            image=spec.image, argv=make_argv(spec, is_new=is_new, initial_cluster=own)
        )
        if request.start == internal.PlanRequest.JOIN:
            cluster = await self._join.join(spec)
            plan.argv[:] = make_argv(spec, is_new=False, initial_cluster=cluster)
        elif request.snapshot:
            plan.restore_argv[:] = make_restore_argv(
                spec, request.snapshot, request.restore_directory, skip_hash_check=request.skip_hash_check
            )
        return plan

    async def check_no_cluster(self, request: Empty, _call: Call) -> Empty:
        """Refuse a bootstrap while another node runs etcd."""
        await self._join.check_no_cluster()
        return request

    async def check(self, request: Empty, _call: Call) -> Empty:
        """Read through the quorum."""
        async with self._access.local() as client:
            await client.check_quorum()
        return request

    async def check_leave(self, request: Empty, _call: Call) -> Empty:
        """Refuse when the others need this node's member."""
        await self._removal.check_leave()
        return request

    async def check_no_member(self, request: Empty, _call: Call) -> Empty:
        """Refuse when this node has a member, or may have one."""
        await self._join.check_no_member()
        return request

    async def check_upgrade(self, request: internal.UpgradeLock, _call: Call) -> Empty:
        """Refuse while etcd would not survive that this node is down; else no other node may upgrade."""
        await self._upgrade_lock.take_when_safe(request.lease)
        return Empty()

    async def lock_upgrade(self, request: internal.UpgradeLock, _call: Call) -> internal.LockUpgradeResponse:
        """Let no other node upgrade, or report which one does."""
        return internal.LockUpgradeResponse(refusal=await self._upgrade_lock.take(request.lease))

    async def end_upgrade(self, request: internal.UpgradeLock, _call: Call) -> Empty:
        """Let the next node upgrade."""
        await self._upgrade_lock.release(request.lease)
        return Empty()

    async def end_earlier_upgrades(self, request: internal.UpgradeLock, _call: Call) -> Empty:
        """End those of earlier boots."""
        await self._upgrade_lock.release_earlier(request.lease)
        return Empty()

    async def leave(self, request: Empty, _call: Call) -> Empty:
        """Remove this node's member."""
        await self._removal.leave()
        return request

    async def resign(self, request: Empty, _call: Call) -> Empty:
        """End this node's part in all elections."""
        await self._resign()
        return request
