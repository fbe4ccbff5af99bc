"""How members leave etcd's cluster: this node's own, or another one on demand."""

from contextlib import suppress

import trio

from talos.api.rpc import Code, RpcError
from talos.clusterd.etcd.members import check_removal, fetch_status
from talos.etcd import client as etcd
from talos.etcd.access import EtcdAccess
from talos.system.logging import Log

LEAVE_TIMEOUT = 5 * 60.0
"""Seconds, as upstream."""
LEAVE_RETRY_INTERVAL = 10.0
"""Seconds, as upstream."""


class MemberRemoval:
    """Removes members, unless the others need them for the quorum."""

    def __init__(self, access: EtcdAccess, log: Log) -> None:
        self._access = access
        self._log = log

    async def remove(self, member: int) -> None:
        """Remove any member; NOT_FOUND, FAILED_PRECONDITION when that would cost the quorum."""
        async with self._access.any() as client:
            await check_removal(self._access, client, member)
            await client.remove_member(member)
        self._log.info("removed a member of etcd", member=f"{member:016x}")

    async def check_leave(self) -> None:
        """Refuse when the others need this node's member."""
        async with self._access.local() as client:
            own = (await client.status()).header.member_id
        async with self._access.any() as client:
            await check_removal(self._access, client, own)

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
            status = await fetch_status(self._access, client, besides=own)
            candidates = [
                member for member in status.members if not member.isLearner and member.ID in status.healthy
            ]
            if not candidates:
                raise RpcError(Code.FAILED_PRECONDITION, "no other member of etcd is healthy and may lead")
            await client.move_leader(candidates[0].ID)
            return candidates[0].name
