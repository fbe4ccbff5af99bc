"""The lock in etcd that lets one control plane node upgrade at a time, as this boot of the node takes it."""

from collections.abc import Callable
from contextlib import suppress

import trio
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.internal.membership_pb2 import LockUpgradeResponse, UpgradeLock
from talos.api.rpc import Code, RpcError
from talos.etcd.lock import make_lease
from talos.machined.node.etcd import MEMBERSHIP
from talos.machined.services.etcd import find_lost_volume, has_member
from talos.machined.services.health import Connect
from talos.process.daemons import CLUSTERD
from talos.resource.state import State
from talos.system.logging import Log

ROLLBACK_TIMEOUT = 10.0
"""Seconds that a rollback waits for etcd."""
RELEASE_TIMEOUT = 10.0
"""Seconds for giving the lock back where it expires otherwise."""
REFUSAL_TIMEOUT = 30.0
"""Seconds for what refuses an upgrade to pass: a new leader takes etcd 1 to 2 s, a member on a busy machine
longer, and the node that was upgraded before gives the lock back a moment after it is done.
"""
POLL_INTERVAL = 2.0
"""Seconds until etcd is called again."""
RENEWAL_INTERVAL = 300.0
"""Seconds; the lock lasts for 1,200 from each request."""
RETRY_INTERVAL = 30.0
"""Seconds until a renewal that failed is tried again."""
_PASSING = frozenset({Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.ABORTED})


class EtcdLock:
    """The lock. A node that has no member calls no other: it has no data of etcd.

    While a volume with them can't be used, that is what the other nodes list; where they list one, or none
    answers, it counts as a node with a member.

    An upgrade takes it when the release is written, which may never be tried, and anew before this boot ends.
    It does so under a lease of this boot: what an earlier boot has taken is given back apart from that, and
    so is what this one takes for its own trial.
    """

    def __init__(self, connect: Connect, state: State) -> None:
        self._connect = connect
        self._state = state
        self._request = UpgradeLock(lease=make_lease())
        self._trial = UpgradeLock(lease=make_lease())

    async def take(self, report: Callable[[str], None]) -> None:
        """Let no other node upgrade; RpcError when etcd would not survive that this one is down now.

        It lasts for 20 minutes from then on, also when it was taken before. What may pass is retried for
        :data:`REFUSAL_TIMEOUT`, and reported meanwhile. After an error the lock may be taken nevertheless:
        :meth:`release` follows.
        """
        end = trio.current_time() + REFUSAL_TIMEOUT
        shown = ""
        while True:
            try:
                return await self._call("CheckUpgrade")
            except OSError as error:
                reason = f"clusterd does not answer: {error}"
            except RpcError as error:
                if error.code not in _PASSING:
                    raise
                reason = error.reason
            if trio.current_time() >= end:
                raise RpcError(Code.FAILED_PRECONDITION, reason + await self._find_remedy())
            if reason != shown:
                report(f"waiting for up to {REFUSAL_TIMEOUT:.0f} s: {reason}")
                shown = reason
            await trio.sleep(POLL_INTERVAL)

    async def keep(self, log: Log) -> None:
        """Have it last for as long as this runs, however long the node's pods take to end.

        What keeps it from being renewed is logged: a caller that goes on takes it anew before.
        """
        wait = RENEWAL_INTERVAL
        while True:
            await trio.sleep(wait)
            try:
                refusal = await self._lock(self._request)
            except (RpcError, OSError) as error:
                refusal = str(error)
            if refusal:
                log.once("the lock of upgrades is not renewed", reason=refusal)
            wait = RETRY_INTERVAL if refusal else RENEWAL_INTERVAL

    async def take_for_rollback(self, log: Log) -> None:
        """Let no other node upgrade; RpcError while one does.

        Nothing else is in a rollback's way: what it goes back from may be what keeps etcd from answering.
        """
        reason = "no answer in time"
        with trio.move_on_after(ROLLBACK_TIMEOUT):
            try:
                refusal = await self._lock(self._request)
            except (RpcError, OSError) as error:
                reason = str(error)
            else:
                if refusal:
                    raise RpcError(Code.FAILED_PRECONDITION, refusal)
                return
        log.warning("rolling back without the lock of upgrades, which etcd does not give", reason=reason)

    async def hold_on_trial(self) -> None:
        """Let no other node upgrade for the next 20 minutes; RpcError, OSError.

        The boot before may have held it for too short a time, or, when a power cut ended it, not at all.
        """
        if refusal := await self._lock(self._trial):
            raise RpcError(Code.ABORTED, refusal)

    async def free(self) -> None:
        """Give back what this boot has taken. RpcError, OSError while etcd does not take that."""
        await self._call("EndUpgrade")

    async def release(self) -> None:
        """As :meth:`free`, but without an error: a lock that is not given back expires."""
        with trio.move_on_after(RELEASE_TIMEOUT, shield=True), suppress(RpcError, OSError):
            await self.free()

    async def release_earlier(self) -> None:
        """Give back what this node has taken in earlier boots, and on trial. RpcError, OSError likewise."""
        await self._call("EndEarlierUpgrades")

    async def _call(self, method: str) -> None:
        await self._call_member(method, self._request, Empty)

    async def _lock(self, request: UpgradeLock) -> str:
        """Take it however the members are; the reason when another node has it."""
        reply = await self._call_member("LockUpgrade", request, LockUpgradeResponse)
        return reply.refusal if reply else ""

    async def _call_member[R: Message](self, method: str, request: UpgradeLock, reply: type[R]) -> R | None:
        """None where there is no member. RpcError; OSError when clusterd does not answer."""
        if not await self._may_have_member():
            return None
        async with self._connect(CLUSTERD.socket) as transport:
            return await transport.unary(MEMBERSHIP + method, request, reply)

    async def _find_remedy(self) -> str:
        """What goes on where this node's own volume is why etcd has to answer; else nothing."""
        lost = await find_lost_volume(self._state)
        if not lost:
            return ""
        reset = f"talosctl reset --graceful=false --reboot --system-labels-to-wipe {lost}"
        return (
            f"; this node may have a member, as its volume {lost} can't be used: "
            f"reset that by {reset}, or upgrade without asking etcd by talosctl upgrade --force"
        )

    async def _may_have_member(self) -> bool:
        try:
            return await has_member(self._connect, self._state)
        except RpcError:  # of a node whose member can't leave, or that may have one
            return True
