"""The client of one discovery server: publishes this node, follows the others."""

import random
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import trio
from google.protobuf.duration_pb2 import Duration

from talos.api.common.common_pb2 import NetIPPort
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.discovery.affiliate_pb2 import Endpoint
from talos.api.discovery.cluster_pb2 import (
    AffiliateDeleteRequest,
    AffiliateDeleteResponse,
    AffiliateUpdateRequest,
    AffiliateUpdateResponse,
    HelloRequest,
    HelloResponse,
    WatchRequest,
    WatchResponse,
)
from talos.api.rpc import Code, RpcError, Transport
from talos.clusterd.discovery.cipher import PayloadCipher
from talos.clusterd.discovery.known import KnownAffiliates
from talos.clusterd.discovery.payload import is_address, make_payload
from talos.system.logging import Log
from talos.system.wakeup import Wakeup

SERVICE = "/sidero.discovery.server.Cluster/"

# Seconds, as upstream.
TTL = 1800.0
HELLO_TIMEOUT = 10.0  # seconds
REFRESH_TIMEOUT = 30.0  # seconds
KEEPALIVE = max(10.0, TTL / 10)

FIRST_RETRY_DELAY, MAX_RETRY_DELAY, WAIT_FACTOR = 0.5, 60.0, 1.5
"""Seconds before a lost connection is made anew, and how they grow; half of it more or less is random."""

STABLE = 30.0
"""Seconds after which a connection counts as good: the next wait is a short one again."""

STALE = 120.0
"""Seconds for which others may take to publish themselves again to a server that has forgotten them."""

PUBLISH_INTERVAL = 1.0  # seconds
DELETED_INTERVAL = 0.5
"""Seconds after which it is seen again whether one that was deleted is back."""

REPLACED_INTERVAL = 60.0
"""Seconds between answers of a node to what another publishes under its id: two could go on for ever."""

REFUSED_INTERVAL = 60.0
"""Seconds after which a node publishes itself again to a server that has no room for it."""

MAX_REDIRECTS = 5
MESSAGES_PER_SECOND = 50
"""Messages of a server that are read; a cluster of a thousand nodes has one per second."""

MAX_MESSAGE = 8 * 1024 * 1024
"""Bytes of a message: a snapshot of 1024 affiliates has at most 5 MiB."""

_ENDPOINT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]{1,253}):([0-9]{1,5})")

type Connect = Callable[[str], AbstractAsyncContextManager[Transport]]
"""Opens a connection to an endpoint, ``HOST:PORT``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """One server and this node's name there. ``key`` is the cluster's secret."""

    endpoint: str
    is_plain: bool
    cluster_id: str
    node_id: str
    key: bytes
    version: str


class DiscoveryClient:
    """``notify`` is called when :attr:`affiliates` or :attr:`public_address` has changed.

    They begin with ``before``, by id, and are the server's from :attr:`has_answered` on.
    """

    def __init__(
        self,
        settings: ClientSettings,
        connect: Connect,
        log: Log,
        notify: Callable[[], None],
        before: Mapping[str, AffiliateSpec] | None = None,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._log = log.bind(endpoint=settings.endpoint)
        self._notify = notify
        self._cipher = PayloadCipher(settings.key)
        self._known = KnownAffiliates(self._cipher, settings.node_id, self._log, trio.current_time)
        self._known.restore(before or {})
        self._local = AffiliateSpec()
        self._data = b""
        self._endpoints: Sequence[bytes] = ()
        self._others: Mapping[str, bytes] = {}
        """By their ids: where this node has seen others."""
        self._reported: dict[str, tuple[bytes, float]] = {}
        """What of these was sent, and until when it need not be sent again."""
        self._is_leaving = False
        self._changed = Wakeup()
        self._replaced = Wakeup()
        self._redirects = 0
        self.has_answered = False
        self.public_address = b""
        """Under which the server sees this node; empty while unknown."""

    @property
    def affiliates(self) -> Mapping[str, AffiliateSpec]:
        """The other nodes, by id."""
        return self._known.affiliates

    def publish(self, local: AffiliateSpec, others: Mapping[str, NetIPPort] | None = None) -> None:
        """Publish this node from now on, and endpoints of ``others`` by their ids, where it has seen them."""
        sealed = {
            node_id: self._cipher.seal_endpoint(Endpoint(ip=one.ip, port=one.port))
            for node_id, one in (others or {}).items()
        }
        if sealed != self._others:
            self._others = sealed
            self._changed.set()
        if local == self._local and not self._is_leaving:
            return
        self._local, self._is_leaving = local, False
        payload, endpoints = make_payload(local)
        self._known.own_hostname = local.hostname
        # Encrypted once, not at every refresh: equal bytes are no change for the server and its watchers.
        self._data = self._cipher.seal(payload)
        self._known.own_data = self._data
        self._endpoints = [self._cipher.seal_endpoint(endpoint) for endpoint in endpoints]
        self._changed.set()

    def leave(self) -> None:
        """Withdraw this node: it is being reset."""
        if not self._is_leaving:
            self._is_leaving, self._data, self._endpoints = True, b"", ()
            self._known.own_data = b""
            self._changed.set()

    async def withdraw(self) -> None:
        """Withdraw this node now, over a connection of its own; RpcError."""
        self.leave()
        async with self._connect(self._settings.endpoint) as transport:
            await self._publish(transport)

    async def run(self) -> None:
        """Keep a connection until cancelled."""
        endpoint, wait = self._settings.endpoint, FIRST_RETRY_DELAY
        while True:
            began = trio.current_time()
            try:
                async with self._connect(endpoint) as transport:
                    redirect = await self._hello(transport)
                    if not redirect:
                        await self._follow(transport)
                endpoint = redirect or endpoint
            except* RpcError as errors:
                error = _first(errors)
                self._log.once(f"the discovery service fails: {error}", key="failure", server=endpoint)
                endpoint = self._settings.endpoint
            if trio.current_time() - began > STABLE:
                wait, self._redirects = FIRST_RETRY_DELAY, 0
            await trio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311 - spreads load, no secret
            wait = min(wait * WAIT_FACTOR, MAX_RETRY_DELAY)

    async def _hello(self, transport: Transport) -> str:
        """Call Hello; the server that it redirects to, empty without one."""
        request = HelloRequest(cluster_id=self._settings.cluster_id, client_version=self._settings.version)
        reply = await transport.unary(SERVICE + "Hello", request, HelloResponse, timeout=HELLO_TIMEOUT)
        if is_address(reply.client_ip) and reply.client_ip != self.public_address:
            self.public_address = reply.client_ip
            self._notify()
        target = reply.redirect.endpoint
        if not target:
            return ""
        self._redirects += 1
        if self._redirects > MAX_REDIRECTS or not is_endpoint(target):
            self._redirects = 0
            self._log.once(f"the discovery service redirects in vain, at last to {target[:64]!r}")
            return self._settings.endpoint
        return target

    async def _follow(self, transport: Transport) -> None:
        """Publish and watch until one of the two fails."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._refresh, transport)
            request = WatchRequest(cluster_id=self._settings.cluster_id)
            async with transport.stream(SERVICE + "Watch", request, WatchResponse) as replies:
                is_first, self.has_answered = not self.has_answered, True
                if self._known.take_snapshot(await anext(replies, WatchResponse())) or is_first:
                    self._notify()
                self._log.once("connected to the discovery service", key="failure", level="info")
                nursery.start_soon(self._drop_stale)
                nursery.start_soon(self._replace)
                await self._watch(replies, nursery)
            nursery.cancel_scope.cancel()

    async def _watch(self, replies: AsyncIterator[WatchResponse], nursery: trio.Nursery) -> None:
        async for reply in replies:
            had_deleted = self._known.has_deleted
            if self._known.take_changes(reply):
                self._notify()
            if self._known.has_deleted and not had_deleted:
                nursery.start_soon(self._drop_deleted)
            if self._known.is_deleted:
                self._known.is_deleted = False
                self._log.once("the discovery service has lost this node, which publishes itself again")
                self._changed.set()
            if self._known.is_replaced:
                self._known.is_replaced = False
                self._replaced.set()
            # Flow control holds the server back meanwhile.
            await trio.sleep(1 / MESSAGES_PER_SECOND)

    async def _drop_deleted(self) -> None:
        while self._known.has_deleted:
            await trio.sleep(DELETED_INTERVAL)
            if self._known.drop_deleted():
                self._notify()

    async def _refresh(self, transport: Transport) -> None:
        """Publish this node now, when it changes, and so often that it does not expire."""
        self._changed.set()
        self._reported.clear()
        wait = TTL / 2
        while True:
            with trio.move_on_after(wait):
                await self._changed.wait()
            wait = TTL / 2 if await self._publish(transport) else REFUSED_INTERVAL
            await self._report(transport)
            # A node whose addresses come and go does not call all the time.
            await trio.sleep(PUBLISH_INTERVAL)

    async def _replace(self) -> None:
        """Publish this node again when another has under its id."""
        while True:
            await self._replaced.wait()
            self._changed.set()
            await trio.sleep(REPLACED_INTERVAL)

    async def _publish(self, transport: Transport) -> bool:
        """Send this node, or that it leaves; whether the server has room for it."""
        if self._is_leaving:
            await self._delete(transport)
            return True
        if not self._data:
            return True
        reason = ""
        for is_repeated in (False, True):
            try:
                if is_repeated:  # others may have filled this node's endpoints, which are gone with it
                    await self._delete(transport)
                await self._update(transport, self._settings.node_id, self._data, self._endpoints)
            except RpcError as error:
                if error.code is not Code.RESOURCE_EXHAUSTED:
                    raise
                reason = error.reason
            else:
                return True
        self._log.once(f"the discovery service has no room for this node: {reason}", key="room")
        return False

    async def _update(
        self, transport: Transport, node_id: str, data: bytes, endpoints: Sequence[bytes]
    ) -> None:
        update = AffiliateUpdateRequest(
            cluster_id=self._settings.cluster_id,
            affiliate_id=node_id,
            affiliate_data=data,
            affiliate_endpoints=endpoints,
            ttl=Duration(seconds=int(TTL)),
        )
        await transport.unary(
            SERVICE + "AffiliateUpdate", update, AffiliateUpdateResponse, timeout=REFRESH_TIMEOUT
        )

    async def _delete(self, transport: Transport) -> None:
        delete = AffiliateDeleteRequest(
            cluster_id=self._settings.cluster_id, affiliate_id=self._settings.node_id
        )
        await transport.unary(
            SERVICE + "AffiliateDelete", delete, AffiliateDeleteResponse, timeout=REFRESH_TIMEOUT
        )

    async def _report(self, transport: Transport) -> None:
        """Send where others were seen, which the server adds to what they publish themselves."""
        if self._is_leaving:
            return
        for node_id, endpoint in self._others.items():
            sent, until = self._reported.get(node_id, (b"", 0.0))
            if sent == endpoint and trio.current_time() < until:
                continue
            try:
                await self._update(transport, node_id, b"", [endpoint])
            except RpcError as error:
                if error.code is not Code.RESOURCE_EXHAUSTED:
                    raise
                self._log.once("the discovery service has no room for endpoints", id=node_id)
            # Less than what is left of the TTL when the next refresh may come.
            self._reported[node_id] = endpoint, trio.current_time() + TTL / 4

    async def _drop_stale(self) -> None:
        await trio.sleep(STALE)
        if self._known.drop_stale():
            self._notify()


def is_endpoint(text: str) -> bool:
    """Whether this is ``HOST:PORT``."""
    found = _ENDPOINT.fullmatch(text)
    return found is not None and 0 < int(found[2]) < 1 << 16


def _first(errors: BaseExceptionGroup[RpcError]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
