"""Answers questions: from the node's own names, from the cache, or from the configured servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

import trio

from talos.dnsd.cache import Cache
from talos.dnsd.message import (
    ANY,
    AXFR,
    IN,
    IXFR,
    NOT_IMPLEMENTED,
    REFUSED,
    SERVER_FAILURE,
    Query,
    Reply,
    format_name,
    make_answer,
    make_error,
    make_local_reply,
)
from talos.dnsd.upstream import Upstream, UpstreamError
from talos.system.logging import Log
from talos.system.wakeup import Signal

MAX_QUESTIONS = 256
"""Different queries that are open at a time."""
LOCAL_TTL = 10
"""How long an answer about the node's own names holds."""
RETRY_INTERVAL = 10.0
"""Seconds between two attempts to reach a server that does not answer."""
_ROOT = Query(
    id=0,
    name=b"\0",
    type=2,
    dns_class=IN,
    udp_size=512,
    has_edns=True,
    wants_dnssec=False,
    checking_disabled=False,
)
"""The servers of the root: a question that any server can answer."""

type Addresses = Sequence[IPv4Address | IPv6Address]
type LocalNames = Mapping[bytes, Addresses]
"""Names on the wire, in lower case, whose addresses are local facts."""


@dataclass(slots=True)
class _Pending:
    done: trio.Event = field(default_factory=trio.Event)
    reply: Reply | None = None


class Resolver:
    """One for all listeners. ``changed`` is notified when a server stops or begins to answer."""

    def __init__(self, log: Log) -> None:
        self.local: LocalNames = {}
        self.changed = Signal()
        self._log = log
        self._cache = Cache()
        self._upstreams: tuple[Upstream, ...] = ()
        self._pending: dict[bytes, _Pending] = {}

    @property
    def upstreams(self) -> Sequence[Upstream]:
        """The servers, in the order in which they are queried."""
        return self._upstreams

    async def use(self, upstreams: Sequence[Upstream]) -> None:
        """Query these servers from now on."""
        before, self._upstreams = self._upstreams, tuple(upstreams)
        self._cache.clear()
        for upstream in before:
            await upstream.close()

    def find(self, query: Query, limit: int) -> bytes | None:
        """An answer that needs no server, of at most ``limit`` bytes."""
        if query.dns_class != IN or query.type in {AXFR, IXFR}:
            return make_error(query, REFUSED)
        if query.type == ANY:
            # RFC 8482 lets a server refuse: such an answer is large, and no client depends on it.
            return make_error(query, NOT_IMPLEMENTED)
        addresses = self.local.get(query.name.lower())
        if addresses is not None:
            return make_answer(query, make_local_reply(query, addresses, LOCAL_TTL), 0, limit)
        found = self._cache.find(query.key, trio.current_time())
        return None if found is None else make_answer(query, *found, limit)

    async def resolve(self, query: Query, limit: int) -> bytes:
        """An answer of at most ``limit`` bytes; an error when no server has one."""
        found = self.find(query, limit)
        if found is not None:
            return found
        pending = self._pending.get(query.key)
        if pending is not None:
            await pending.done.wait()
            reply = pending.reply
        else:
            if len(self._pending) >= MAX_QUESTIONS:
                self._log.once(f"{MAX_QUESTIONS} questions are open, further ones fail", key="busy")
                return make_error(query, SERVER_FAILURE)
            reply = await self._forward(query)
        return make_error(query, SERVER_FAILURE) if reply is None else make_answer(query, reply, 0, limit)

    async def _forward(self, query: Query) -> Reply | None:
        pending = self._pending[query.key] = _Pending()
        try:
            pending.reply = await self._query_upstreams(query)
            if pending.reply is not None:
                self._cache.add(query.key, pending.reply, trio.current_time())
        finally:
            del self._pending[query.key]
            pending.done.set()
        return pending.reply

    async def _query_upstreams(self, query: Query) -> Reply | None:
        """Query one after the other, those last that did not answer before."""
        last: Reply | None = None
        for upstream in sorted(self._upstreams, key=lambda upstream: not upstream.is_healthy):
            try:
                reply = await upstream.query(query)
            except UpstreamError as error:
                self._log.once(f"{format_name(query.name)}: {error}", key=str(upstream.server))
                self._mark(upstream, is_healthy=False)
                continue
            self._mark(upstream, is_healthy=True)
            if reply.code not in {SERVER_FAILURE, REFUSED}:
                return reply
            last = reply
        return last

    def _mark(self, upstream: Upstream, *, is_healthy: bool) -> None:
        if upstream.is_healthy != is_healthy:
            upstream.is_healthy = is_healthy
            self._log.info(f"server {upstream.server} {'answers again' if is_healthy else 'does not answer'}")
            self._log.forget(str(upstream.server))
            self.changed.notify()

    async def watch_health(self) -> None:
        """Look every now and then whether servers that did not answer do so again; runs until cancelled."""
        while True:
            while all(upstream.is_healthy for upstream in self._upstreams):
                await self.changed.wait()
            await trio.sleep(RETRY_INTERVAL)
            for upstream in self._upstreams:
                if upstream.is_healthy:
                    continue
                try:
                    await upstream.query(_ROOT)
                except UpstreamError:
                    continue
                self._mark(upstream, is_healthy=True)
