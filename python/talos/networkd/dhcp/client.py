"""A DHCP client of one link: obtains a lease and renews it.

States are functions: request the previous address, discover, request, renew. Time is
trio's, which no step of the clock disturbs. RFC 2131, section 4.4.
"""

import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_interface
from itertools import islice
from typing import Protocol

import trio

from talos.networkd.dhcp.lease import Lease, UnusableAnswerError, parse_lease
from talos.networkd.dhcp.message import MessageType, Reply, make_request, parse_reply
from talos.networkd.dhcp.wire import Peer, Wire
from talos.system.backoff import Backoff
from talos.system.logging import Log
from talos.system.wakeup import Wakeup

FIRST_TIMEOUT = 2.0
"""Seconds for the first reply; doubled with each retransmission."""
MAX_TIMEOUT = 60.0  # seconds
REQUEST_TRIES = 4
REBOOT_TRIES = 2
MIN_RETRY_INTERVAL = 60.0
"""Minimum seconds between renewal attempts, unless the lease ends sooner."""
REFUSED_DELAY = 10.0
"""Seconds to wait after a server declined its own offer."""
WARNING_INTERVAL = 60.0
"""Seconds between two warnings about missing replies."""
MAX_WARNINGS = 100
"""Maximum number of distinct warnings about replies."""


class Report(Protocol):
    """Takes the lease in effect, or None when there is none any more."""

    def __call__(self, lease: Lease | None) -> Awaitable[None]:
        """Report."""
        ...


@dataclass(slots=True)
class LeaseReply:
    """A reply with its sender and the lease, if it grants one."""

    type: MessageType
    peer: Peer
    lease: Lease | None = None


@dataclass(slots=True)
class Client:
    """Runs until cancelled; the lease is not released then, since the address may still be in use."""

    link: str
    wire: Wire
    hardware_address: bytes
    report: Report
    log: Log
    identifier: tuple[int, bytes] | None = None
    previous: IPv4Address | None = None
    """The previous address, requested first."""
    pick: Callable[[int], int] = random.SystemRandom().getrandbits
    _transaction: int = 0
    _began: float = 0.0
    _check: Wakeup = field(default_factory=Wakeup)
    _warnings: int = 0

    def check(self) -> None:
        """The link was down: verify the lease with the server."""
        self._check.set()

    async def run(self) -> None:
        """Obtain a lease and renew it until cancelled."""
        while True:
            self._transaction, self._began = self.pick(32), trio.current_time()
            found = await self._reclaim() if self.previous is not None else None
            if found is None:
                found = await self._discover()
            if found is None:
                await trio.sleep(REFUSED_DELAY)
                continue
            lease, peer = found
            if await self._has_conflict(lease, peer):
                await trio.sleep(REFUSED_DELAY)
                continue
            duration = format_seconds(lease.seconds)
            self.log.info(f"DHCP on {self.link}: {lease.address} from {peer.address} for {duration}")
            await self.report(lease)
            self.previous = lease.address.ip
            if not await self._keep(lease, peer):
                self.previous = None
            await self.report(None)

    async def _has_conflict(self, lease: Lease, peer: Peer) -> bool:
        """Whether another machine has the address; then the address is declined. RFC 2131, section 3.1."""
        address = lease.address.ip
        try:
            owner = await self.wire.find_owner(address, self.hardware_address)
        except OSError as error:
            self._warn_once(f"cannot look for another owner of {address}: {error.strerror}")
            return False
        if owner is None:
            return False
        self.log.warning(f"DHCP on {self.link}: {address} is declined: {owner.hex(':')} has it")
        message = make_request(
            MessageType.DECLINE,
            transaction=self._transaction,
            hardware_address=self.hardware_address,
            identifier=self.identifier,
            requested=address,
            server=lease.server or peer.address,
        )
        try:
            await self.wire.send(message)
        except OSError as error:
            self._warn_once(f"cannot send: {error.strerror}")
        return True

    async def _reclaim(self) -> tuple[Lease, Peer] | None:
        answer = await self._exchange(REBOOT_TRIES, MessageType.REQUEST, requested=self.previous)
        self.previous = None
        if answer is None or answer.lease is None:
            return None
        return answer.lease, answer.peer

    async def _discover(self) -> tuple[Lease, Peer] | None:
        waits, next_warning = iter(Backoff(FIRST_TIMEOUT, MAX_TIMEOUT)), self._began + FIRST_TIMEOUT
        while True:
            offer = await self._exchange(1, MessageType.DISCOVER, wait=next(waits))
            if offer is not None and offer.lease is not None:
                break
            if trio.current_time() >= next_warning:
                self.log.warning(f"DHCP on {self.link}: no server replies, retrying")
                next_warning = trio.current_time() + WARNING_INTERVAL
        lease = offer.lease
        answer = await self._exchange(
            REQUEST_TRIES,
            MessageType.REQUEST,
            requested=lease.address.ip,
            server=lease.server or offer.peer.address,
        )
        if answer is None or answer.lease is None:
            self.log.warning(f"DHCP on {self.link}: {lease.address} was offered but not granted")
            return None
        return answer.lease, answer.peer

    async def _keep(self, lease: Lease, peer: Peer) -> bool:
        """Renew a lease; false when the server refuses it, true when it expired."""
        granted = trio.current_time()
        while True:
            end = granted + lease.seconds
            rebind, due = granted + lease.rebind_seconds, granted + lease.renew_seconds
            with trio.move_on_at(due) as waiting:
                await self._check.wait()
            answer: LeaseReply | None = None
            if not waiting.cancelled_caught:
                self._transaction, self._began = self.pick(32), trio.current_time()
                answer = await self._exchange(REBOOT_TRIES, MessageType.REQUEST, requested=lease.address.ip)
            while answer is None and trio.current_time() >= due:
                now = trio.current_time()
                if now >= end:
                    self.log.warning(f"DHCP on {self.link}: the lease of {lease.address} has expired")
                    return True
                self._transaction, self._began = self.pick(32), now
                renewing = now < rebind
                limit = rebind if renewing else end
                pause = min(max((limit - now) / 2, min(MIN_RETRY_INTERVAL, lease.seconds / 8)), limit - now)
                answer = await self._exchange(
                    1,
                    MessageType.REQUEST,
                    wait=max(pause, 0.1),
                    own=lease.address.ip,
                    to=peer if renewing else None,
                )
            if answer is None:
                continue
            if answer.lease is None:
                self.log.warning(f"DHCP on {self.link}: the server took {lease.address} back")
                return False
            changed = answer.lease != lease
            lease, peer, granted = answer.lease, answer.peer, self._began
            self.log.debug(
                f"DHCP on {self.link}: {lease.address} renewed for {format_seconds(lease.seconds)}"
            )
            if changed:
                await self.report(lease)

    async def _exchange(
        self,
        attempts: int,
        kind: MessageType,
        *,
        wait: float = FIRST_TIMEOUT,
        own: IPv4Address | None = None,
        requested: IPv4Address | None = None,
        server: IPv4Address | None = None,
        to: Peer | None = None,
    ) -> LeaseReply | None:
        """Send until there is a reply: an offer to a discovery, else ACK (with a lease) or NAK."""
        wanted = {MessageType.OFFER} if kind is MessageType.DISCOVER else {MessageType.ACK, MessageType.NAK}
        for timeout in islice(Backoff(wait, MAX_TIMEOUT), attempts):
            message = make_request(
                kind,
                transaction=self._transaction,
                hardware_address=self.hardware_address,
                identifier=self.identifier,
                seconds=int(trio.current_time() - self._began),
                own=own,
                requested=requested,
                server=server,
            )
            # Avoids synchronized requests of machines that start together: ±1 s, RFC 2131 4.1.
            jitter = (self.pick(16) / 0xFFFF - 0.5) * min(timeout, 2.0) * 0.5
            with trio.move_on_after(timeout + jitter):
                try:
                    await self.wire.send(message, source=own, to=to)
                except OSError as error:
                    self._warn_once(f"cannot send: {error.strerror}")
                while True:
                    answer = await self._receive(wanted)
                    # A NAK of a server that the request was not sent to is ignored.
                    if answer is not None and (
                        answer.type is not MessageType.NAK or server in {None, answer.peer.address}
                    ):
                        return answer
        return None

    async def _receive(self, wanted: set[MessageType]) -> LeaseReply | None:
        try:
            data, peer = await self.wire.receive()
        except OSError as error:
            # ENETDOWN, once, when the link is switched off.
            self._warn_once(f"cannot receive: {error.strerror}")
            await trio.sleep(FIRST_TIMEOUT)
            return None
        try:
            reply = parse_reply(data, transaction=self._transaction, hardware_address=self.hardware_address)
            if reply is None or reply.type not in wanted:
                return None
            return self._make_reply(reply, peer)
        except ValueError as error:
            self._warn_once(f"answer of {peer.address} ignored: {error}")
            return None

    def _make_reply(self, reply: Reply, peer: Peer) -> LeaseReply:
        if reply.type is MessageType.NAK:
            return LeaseReply(reply.type, peer)
        lease = parse_lease(reply.address, reply.options)
        for remark in lease.remarks:
            self._warn_once(f"answer of {peer.address}: {remark}")
        if lease.server == lease.address.ip:
            raise UnusableAnswerError("the server offers its own address")
        return LeaseReply(reply.type, peer, lease)

    def _warn_once(self, text: str) -> None:
        # A server that sends invalid packets without end must not fill the log.
        if self._warnings < MAX_WARNINGS and self.log.once(f"DHCP on {self.link}: {text}"):
            self._warnings += 1


def format_seconds(seconds: float) -> str:
    """A time for the log."""
    return "ever" if seconds == math.inf else f"{seconds:.0f} s"


def parse_previous(address: str) -> IPv4Address | None:
    """The address of ``10.0.0.1/24``, if it is one of IPv4."""
    ip = ip_interface(address).ip
    return ip if isinstance(ip, IPv4Address) else None
