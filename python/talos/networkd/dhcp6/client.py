"""A DHCPv6 client of one link: obtains addresses and renews them. RFC 8415, section 18.2."""

import errno
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from itertools import islice
from typing import Protocol

import trio

from talos.networkd.dhcp.client import format_seconds
from talos.networkd.dhcp6.message import Kind, Lease6, LeasedAddress, Reply6, make_message, parse_message
from talos.networkd.dhcp6.options import NO_BINDING, NOT_ON_LINK, UnusableReplyError
from talos.networkd.dhcp6.wire import Wire6
from talos.system.backoff import Backoff
from talos.system.logging import Log
from talos.system.wakeup import Wakeup

FIRST_TIMEOUT = 1.0
"""Seconds for the first answer; doubled with each retransmission. Section 7.6."""
MAX_SOLICIT_TIMEOUT, MAX_REQUEST_TIMEOUT = 3600.0, 30.0  # seconds
REQUEST_TRIES = 10
SEND_RETRY = 0.1
CONFIRM_TIMEOUT = 10.0  # seconds
"""Without an answer in this time the addresses are used as before."""
MAX_RENEW_TIMEOUT = 600.0  # seconds
MIN_RENEW_TIMEOUT = 10.0
REFUSED_DELAY = 10.0
"""Seconds before a new attempt after all of them failed."""
WARNING_INTERVAL = 60.0  # seconds
MAX_WARNINGS = 100
"""Maximum number of distinct warnings about answers."""
BEST_PREFERENCE = 255
DECLINE_TRIES = 4
"""Section 7.6."""


class Report6(Protocol):
    """Takes the lease in effect, or None when there is none any more."""

    def __call__(self, lease: Lease6 | None) -> Awaitable[None]:
        """Report."""
        ...


@dataclass(slots=True, kw_only=True)
class Client6:
    """Runs until cancelled; the lease is not released then, since the addresses may still be in use."""

    link: str
    wire: Wire6
    duid: bytes
    association: int
    report: Report6
    log: Log
    pick: Callable[[int], int] = random.SystemRandom().getrandbits
    _transaction: bytes = b""
    _began: float = 0.0
    _check: Wakeup = field(default_factory=Wakeup)
    _duplicates: frozenset[IPv6Address] = frozenset()
    _warnings: int = 0

    def check(self) -> None:
        """The link was down: perhaps it is another one now."""
        self._check.set()

    def decline(self, duplicates: frozenset[IPv6Address]) -> None:
        """The kernel has found that other machines use these addresses (RFC 4862)."""
        is_new = not duplicates <= self._duplicates
        self._duplicates = duplicates
        if is_new:
            self._check.set()

    async def run(self) -> None:
        """Obtain a lease and renew it until cancelled."""
        while True:
            lease = await self._solicit()
            if lease is None:
                await trio.sleep(REFUSED_DELAY)
                continue
            given = ", ".join(str(item.address) for item in lease.addresses)
            self.log.info(f"DHCPv6 on {self.link}: {given} for {format_seconds(lease.seconds)}")
            await self.report(lease)
            is_declined = await self._keep(lease)
            await self.report(None)
            if is_declined:
                # A server that has no other address must not be solicited in a circle.
                await trio.sleep(REFUSED_DELAY)

    async def _solicit(self) -> Lease6 | None:
        """Find a server and have it grant what it offers; None when it does not."""
        self._begin()
        waits = iter(Backoff(FIRST_TIMEOUT, MAX_SOLICIT_TIMEOUT))
        next_warning = self._began + WARNING_INTERVAL / 6
        best: Lease6 | None = None
        while best is None:
            # All offers of the first interval are compared; later the first one is taken.
            wait = next(waits)
            collecting = wait == FIRST_TIMEOUT
            for reply in await self._exchange(Kind.SOLICIT, wait, collect=collecting):
                if reply.kind is Kind.REPLY:
                    return reply.lease
                if best is None or (reply.lease and reply.lease.preference > best.preference):
                    best = reply.lease
            if best is None and trio.current_time() >= next_warning:
                self.log.warning(f"DHCPv6 on {self.link}: no server replies, retrying")
                next_warning = trio.current_time() + WARNING_INTERVAL
        self._begin()
        for wait in islice(Backoff(FIRST_TIMEOUT, MAX_REQUEST_TIMEOUT), REQUEST_TRIES):
            for reply in await self._exchange(Kind.REQUEST, wait, lease=best):
                if reply.lease is not None:
                    return reply.lease
        self.log.warning(f"DHCPv6 on {self.link}: an offer was not granted")
        return None

    async def _keep(self, lease: Lease6) -> bool:
        """Renew a lease until it has ended or a server took it back; whether it was declined."""
        granted = trio.current_time()
        while True:
            end = granted + lease.seconds
            rebind, due = granted + lease.rebind_seconds, granted + lease.renew_seconds
            with trio.move_on_at(due) as waiting:
                await self._check.wait()
            if duplicates := self._find_duplicates(lease):
                await self._decline(lease, duplicates)
                return True
            if not waiting.cancelled_caught and not await self._confirm(lease):
                self.log.warning(f"DHCPv6 on {self.link}: the addresses are not of this link")
                return False
            waits = iter(Backoff(MIN_RENEW_TIMEOUT, MAX_RENEW_TIMEOUT))
            renewed: Lease6 | None = None
            self._begin()
            while renewed is None and (now := trio.current_time()) >= due:
                if now >= end:
                    self.log.warning(f"DHCPv6 on {self.link}: the lease has expired")
                    return False
                is_renewal = now < rebind
                limit = rebind if is_renewal else end
                kind = Kind.RENEW if is_renewal else Kind.REBIND
                seconds = max(min(next(waits), limit - now), 0.1)
                for reply in await self._exchange(kind, seconds, lease=lease):
                    if reply.lease is None:
                        self.log.warning(f"DHCPv6 on {self.link}: the server took the addresses back")
                        return False
                    renewed = reply.lease
            if renewed is None:
                continue
            changed, lease, granted = renewed != lease, renewed, self._began
            if changed:
                await self.report(lease)

    async def _confirm(self, lease: Lease6) -> bool:
        """Whether the addresses are of this link still; without an answer they are."""
        self._begin()
        waits = iter(Backoff(FIRST_TIMEOUT))
        while trio.current_time() < self._began + CONFIRM_TIMEOUT:
            for reply in await self._exchange(Kind.CONFIRM, next(waits), lease=lease):
                return reply.status != NOT_ON_LINK
        return True

    def _find_duplicates(self, lease: Lease6) -> tuple[LeasedAddress, ...]:
        return tuple(item for item in lease.addresses if item.address in self._duplicates)

    async def _decline(self, lease: Lease6, duplicates: tuple[LeasedAddress, ...]) -> None:
        """Decline the addresses: they are in use. Section 18.2.8."""
        listed = ", ".join(str(item.address) for item in duplicates)
        self.log.warning(f"DHCPv6 on {self.link}: {listed} is declined: another machine has it")
        declined = replace(lease, addresses=duplicates)
        self._begin()
        for wait in islice(Backoff(FIRST_TIMEOUT), DECLINE_TRIES):
            if await self._exchange(Kind.DECLINE, wait, lease=declined):
                return

    def _begin(self) -> None:
        self._transaction, self._began = self.pick(24).to_bytes(3), trio.current_time()

    async def _exchange(
        self, kind: Kind, seconds: float, *, lease: Lease6 | None = None, collect: bool = False
    ) -> list[Reply6]:
        """Send once and wait for the first answer; for all offers in this time when they are collected."""
        with_server = lease is not None and kind in {Kind.REQUEST, Kind.RENEW, Kind.DECLINE}
        message = make_message(
            kind,
            transaction=self._transaction,
            client=self.duid,
            association=self.association,
            elapsed=trio.current_time() - self._began,
            server=lease.server if lease is not None and with_server else b"",
            addresses=[item.address for item in lease.addresses] if lease is not None else (),
        )
        # Machines that start together shall not send together: 10 %, section 15.
        jitter = (self.pick(16) / 0xFFFF - 0.5) * 0.2 * seconds
        replies: list[Reply6] = []
        with trio.move_on_after(seconds + jitter):
            await self._send(message)
            while True:
                reply = await self._receive(kind)
                if reply is None:
                    continue
                replies.append(reply)
                is_best = reply.lease is not None and reply.lease.preference == BEST_PREFERENCE
                if not collect or reply.kind is Kind.REPLY or is_best:
                    break
        return replies

    async def _send(self, message: bytes) -> None:
        """Send, when the link has its own address: the kernel first looks for duplicates of it."""
        while True:
            try:
                return await self.wire.send(message)
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    return self._warn_once(f"cannot send: {error.strerror}")
            await trio.sleep(SEND_RETRY)

    async def _receive(self, kind: Kind) -> Reply6 | None:
        """The next usable answer to a message of this kind."""
        try:
            data, sender = await self.wire.receive()
        except OSError as error:
            self._warn_once(f"cannot receive: {error.strerror}")
            await trio.sleep(FIRST_TIMEOUT)
            return None
        try:
            reply = parse_message(
                data, transaction=self._transaction, client=self.duid, association=self.association
            )
        except UnusableReplyError as error:
            if error.status == NO_BINDING and kind in {Kind.RENEW, Kind.REBIND}:
                return Reply6(kind=Kind.REPLY, is_rapid=False, status=NO_BINDING, lease=None)
            self._warn_once(f"answer of {sender} ignored: {error}")
            return None
        if reply is None or (kind not in {Kind.CONFIRM, Kind.DECLINE} and reply.lease is None):
            return None
        if kind is Kind.SOLICIT and reply.kind is Kind.REPLY and not reply.is_rapid:
            return None
        if kind is not Kind.SOLICIT and reply.kind is not Kind.REPLY:
            return None
        for remark in reply.lease.remarks if reply.lease is not None else ():
            self._warn_once(f"answer of {sender}: {remark}")
        return reply

    def _warn_once(self, text: str) -> None:
        # A server that sends invalid packets without end must not fill the log.
        if self._warnings < MAX_WARNINGS and self.log.once(f"DHCPv6 on {self.link}: {text}"):
            self._warnings += 1
