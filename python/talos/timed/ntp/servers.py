"""The servers that are queried regularly: one address after the other, with pauses for those that refuse."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import trio

from talos.api.rpc import RpcError
from talos.system.backoff import Backoff
from talos.system.logging import Log
from talos.timed.ntp.client import PLAIN, Address, Now, Protection, query_address, resolve
from talos.timed.ntp.packet import RefusedError, Sample

MAX_SERVERS = 8
"""Of a longer list only so many are queried."""
TRIES = 2
"""Failures in a row after which another address of the name is queried."""
RATE_BACKOFF = Backoff(64.0, 3600.0)
"""Seconds for which a server is left alone that requested it; one that denies access, for the limit."""
RETRY_BACKOFF = Backoff(2.0, 64.0)
"""Seconds until silent servers are queried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Where a server answers, and what protects the packets."""

    addresses: Sequence[Address]
    make_protection: Callable[[], Awaitable[Protection]]


type OpenSession = Callable[[str], Awaitable[Session]]


async def open_plain(server: str) -> Session:
    """A server without authentication. RpcError."""

    async def plain() -> Protection:
        return PLAIN

    return Session(addresses=await resolve(server), make_protection=plain)


@dataclass(slots=True)
class _Server:
    name: str
    session: Session | None = None
    next_address: int = 0
    failures: int = 0
    rate_delays: Iterator[float] = field(default_factory=lambda: iter(RATE_BACKOFF))
    silent_until: float = field(default=0.0)


class Servers:
    """Queries all servers at once; each answers for itself and delays no other by more than its time-out."""

    def __init__(self, names: Sequence[str], open_session: OpenSession, now: Now, log: Log) -> None:
        self._servers = [_Server(name) for name in dict.fromkeys(names[:MAX_SERVERS])]
        self._open_session = open_session
        self._now = now
        self._log = log
        self._delays = iter(RETRY_BACKOFF)
        self.retry = RETRY_BACKOFF.initial
        """Seconds until servers that did not answer are queried again."""

    async def query(self) -> list[Sample]:
        """One sample of each server that answers."""
        samples: list[Sample] = []

        async def query_one(server: _Server) -> None:
            sample = await self._query(server)
            if sample is not None:
                samples.append(sample)

        async with trio.open_nursery() as nursery:
            for server in self._servers:
                if server.silent_until <= trio.current_time():
                    nursery.start_soon(query_one, server)
        if samples:
            self._delays, self.retry = iter(RETRY_BACKOFF), RETRY_BACKOFF.initial
        else:
            self.retry = next(self._delays)
        return samples

    async def _query(self, server: _Server) -> Sample | None:
        try:
            if server.session is None:
                server.session = await self._open_session(server.name)
            address = server.session.addresses[server.next_address]
            protection = await server.session.make_protection()
            sample = await query_address(server.name, address, self._now, protection=protection)
        except RefusedError as refusal:
            # RFC 5905, section 7.4: RATE requests longer pauses, DENY and RSTR no query at all.
            delay = next(server.rate_delays) if refusal.kiss == "RATE" else RATE_BACKOFF.limit
            server.silent_until = trio.current_time() + delay
            self._log.once(refusal.reason, key=server.name, level="warning")
            self._move_on(server)
            return None
        except RpcError as error:
            self._log.once(error.reason, key=server.name, level="warning")
            server.failures += 1
            if server.failures >= TRIES:
                self._move_on(server)
            return None
        server.failures, server.rate_delays = 0, iter(RATE_BACKOFF)
        self._log.forget(server.name)
        return sample

    @staticmethod
    def _move_on(server: _Server) -> None:
        """Take the next address; after the last one the name is resolved anew."""
        server.failures = 0
        server.next_address += 1
        if server.session is None or server.next_address >= len(server.session.addresses):
            server.session, server.next_address = None, 0
