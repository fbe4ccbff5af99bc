"""DNSResolveCache: the listeners of the host's resolver; DNSUpstream: the servers that it queries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

import trio
from google.protobuf.struct_pb2 import Struct

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import DNSResolveCacheSpec, HostDNSConfigSpec, ResolverStatusSpec
from talos.dnsd.resolver import Resolver
from talos.dnsd.server import Address, Listener
from talos.dnsd.upstream import Server, Transport, Upstream
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.logging import Log

RUNNING = "running"
BIND_RETRY = 5.0
"""Seconds before an address that is in use is tried again."""
MAX_SERVERS = 16
LOOPBACK = "lo"
OUTSIDE_KINDS = frozenset({"", "bond", "vlan"})
"""The kernel's names; a device has none."""
MAX_LINKS = 1024
"""The kernel takes a filter of 4096 instructions."""

_TRANSPORTS = {
    enums_pb2.DNS_PROTOCOL_DEFAULT: Transport.UDP,
    enums_pb2.DNS_PROTOCOL_DNS_OVER_TLS: Transport.TLS,
    enums_pb2.DNS_PROTOCOL_DNS_OVER_HTTP: Transport.HTTPS,
}

type Place = tuple[Address, int]


@dataclass(slots=True)
class _Listening:
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    status: str = ""
    listener: Listener | None = None


class DNSResolveCacheController(Controller):
    """HostDNSConfig, ResolverStatus → DNSResolveCache, DNSUpstream; serves while it is enabled."""

    name = "network.DNSResolveCacheController"
    inputs = (
        Input(*ids.HOST_DNS_CONFIG),
        Input(*ids.RESOLVER_STATUS),
        Input(kinds.ADDRESS_SPEC),
        Input(kinds.LINK_STATUS),
    )
    outputs = (Output(kinds.DNS_RESOLVE_CACHE), Output(kinds.DNS_UPSTREAM))

    def __init__(self, resolver: Resolver, log: Log) -> None:
        self._resolver = resolver
        self._log = log
        self._listening: dict[Place, _Listening] = {}
        self._servers: tuple[Server, ...] = ()
        self._outside: tuple[int, ...] = ()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the config until cancelled."""
        self._listening.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._resolver.watch_health)
            nursery.start_soon(self._follow_health, runtime)
            async for _ in runtime.events():
                await self._follow(runtime, nursery)
                async with runtime.track_outputs():
                    await self._write(runtime)
                runtime.reset_backoff()

    async def _follow_health(self, runtime: ControllerRuntime) -> None:
        while True:
            await self._resolver.changed.wait()
            runtime.queue_reconcile()

    async def _follow(self, runtime: ControllerRuntime, nursery: trio.Nursery) -> None:
        config = await runtime.get_or_none(*ids.HOST_DNS_CONFIG)
        resolvers = await runtime.get_or_none(*ids.RESOLVER_STATUS)
        wanted = find_places(config.spec) if config is not None else ()
        own = {address for address, _ in wanted}
        servers = find_servers(resolvers.spec) if resolvers is not None and wanted else ()
        # A resolver that queries itself would do so for ever.
        usable = tuple(server for server in servers if server.address not in own)
        if usable != self._servers:
            self._servers = usable
            await self._resolver.use([Upstream(server) for server in usable])
        await self._follow_links(runtime)
        for place in self._listening.keys() - set(wanted):
            self._listening.pop(place).scope.cancel()
        for place in wanted:
            if place not in self._listening:
                listening = self._listening[place] = _Listening()
                nursery.start_soon(self._listen, runtime, place, listening)

    async def _follow_links(self, runtime: ControllerRuntime) -> None:
        addressed = {resource.spec.link_name for resource in await runtime.list(kinds.ADDRESS_SPEC)}
        outside = tuple(
            sorted(
                link.spec.index
                for link in await runtime.list(kinds.LINK_STATUS)
                if link.id != LOOPBACK and (link.id in addressed or link.spec.kind in OUTSIDE_KINDS)
            )
        )[:MAX_LINKS]
        if outside != self._outside:
            self._outside = outside
            for listening in self._listening.values():
                if listening.listener is not None:
                    listening.listener.refuse(outside)

    async def _listen(self, runtime: ControllerRuntime, place: Place, listening: _Listening) -> None:
        with listening.scope:
            while True:
                try:
                    listener = Listener(self._resolver, *place, self._outside)
                except OSError as error:
                    listening.status = f"error: {error.strerror}"
                    self._log.once(f"cannot listen on {format_place(place)}: {error.strerror}")
                    runtime.queue_reconcile()
                    await trio.sleep(BIND_RETRY)
                    continue
                listening.listener, listening.status = listener, RUNNING
                self._log.info(f"listening on {format_place(place)}")
                runtime.queue_reconcile()
                await listener.serve()

    async def _write(self, runtime: ControllerRuntime) -> None:
        for place, listening in self._listening.items():
            if listening.status:
                status = DNSResolveCacheSpec(status=listening.status)
                for transport in ("udp", "tcp"):
                    cache_id = f"{transport}-{format_place(place)}"
                    await runtime.put(kinds.DNS_RESOLVE_CACHE, cache_id, status)
        for index, upstream in enumerate(self._resolver.upstreams):
            spec = Struct()
            spec.update({"healthy": upstream.is_healthy, "addr": str(upstream.server)})
            await runtime.put(kinds.DNS_UPSTREAM, f"#{index:03d}", spec)


def find_places(config: HostDNSConfigSpec) -> Sequence[Place]:
    """Addresses and ports to listen on; none when it is off."""
    if not config.enabled:
        return ()
    return tuple((ip_address(item.ip), item.port) for item in config.listen_addresses if item.ip)


def find_servers(resolvers: ResolverStatusSpec) -> tuple[Server, ...]:
    """The servers in their order, each once."""
    servers = [
        Server(
            address=ip_address(item.addr.ip),
            transport=_TRANSPORTS.get(item.protocol, Transport.UDP),
            name=item.tls_server_name,
        )
        for item in resolvers.name_servers
        if item.addr.ip
    ]
    return tuple(dict.fromkeys(servers))[:MAX_SERVERS]


def format_place(place: Place) -> str:
    """``127.0.0.53:53``."""
    address, port = place
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"
