"""OperatorSpec: one DHCP client per spec, whose lease is written as specs of its layer."""

from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_network
from typing import Protocol

import trio
from google.protobuf.message import Message

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    LinkSpecSpec,
    NameServerSpec,
    OperatorSpecSpec,
    PlatformConfigSpec,
    ResolverSpecSpec,
    RouteSpecSpec,
    TimeServerSpecSpec,
)
from talos.networkd.addresses import make_ip
from talos.networkd.controllers.platform_config import make_specs
from talos.networkd.dhcp.lease import Lease
from talos.networkd.dhcp.wire import OpenWire
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.networkd.spec_makers import make_address, make_hostname, make_route
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.kind import Kind
from talos.resource.resource import Phase
from talos.system.logging import Log
from talos.system.net.links import Address, Interface, Network

OPEN_RETRY = 5.0
"""Seconds before opening a packet socket on a link is retried."""

_LAYER = enums_pb2.CONFIG_OPERATOR
_UP_STATES = (enums_pb2.OPER_STATE_UP, enums_pb2.OPER_STATE_UNKNOWN)
_MAC = 1
# RFC 4361: a client identifier made of an IAID and a DUID.
_DUID = 255
_KINDS: tuple[Kind[Message], ...] = (
    kinds.LINK_SPEC,
    kinds.ADDRESS_SPEC,
    kinds.ROUTE_SPEC,
    kinds.HOSTNAME_SPEC,
    kinds.RESOLVER_SPEC,
    kinds.TIME_SERVER_SPEC,
)


class Checkable(Protocol):
    """A running client, as the controller uses it."""

    def check(self) -> None:
        """The link was down: verify the lease."""
        ...


@dataclass(slots=True)
class _Running:
    spec: OperatorSpecSpec
    index: int
    hardware_address: bytes
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    client: Checkable | None = None
    is_up: bool = True
    lease: Lease | None = None
    is_known: bool = False
    """Whether the client has reported; until then the specs of an earlier run stay."""


class OperatorSpecController(Controller):
    """Starts and stops clients. A lease outlives a pulled cable, but not its link or its spec."""

    name = "network.OperatorSpecController"
    inputs = (Input(kinds.OPERATOR_SPEC), Input(kinds.LINK_STATUS))
    outputs = tuple(Output(kind, shared=True) for kind in _KINDS)

    def __init__(self, open_wire: OpenWire, log: Log) -> None:
        self._open_wire = open_wire
        self._log = log
        self._running: dict[str, _Running] = {}

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow specs and links until cancelled."""
        self._running.clear()
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                await self._follow(runtime, nursery)
                await self._write(runtime)
                runtime.reset_backoff()

    async def _follow(self, runtime: ControllerRuntime, nursery: trio.Nursery) -> None:
        links = {link.id: link.spec for link in await runtime.list(kinds.LINK_STATUS)}
        wanted: dict[str, OperatorSpecSpec] = {}
        for resource in await runtime.list(kinds.OPERATOR_SPEC):
            spec = resource.spec
            if resource.metadata.phase is Phase.RUNNING and spec.operator == enums_pb2.OPERATOR_DHCP4:
                wanted[spec.link_name] = spec
        for name, running in list(self._running.items()):
            link = links.get(name)
            known = (running.index, running.hardware_address)
            is_same_link = link is not None and (link.index, link.hardware_addr) == known
            if not is_same_link or wanted.get(name) != running.spec:
                running.scope.cancel()
                del self._running[name]
        for name, spec in wanted.items():
            link = links.get(name)
            if link is None:
                continue
            is_up = link.operational_state in _UP_STATES and link.link_state
            running = self._running.get(name)
            if running is None:
                if is_up and link.hardware_addr:
                    started = _Running(spec, link.index, link.hardware_addr)
                    self._running[name] = started
                    nursery.start_soon(self._run_client, runtime, started)
                continue
            if is_up and not running.is_up and running.client is not None:
                running.client.check()
            running.is_up = is_up

    async def _run_client(self, runtime: ControllerRuntime, running: _Running) -> None:
        # Nodes without DHCP need none of it.
        from talos.networkd.dhcp.client import Client

        name = running.spec.link_name

        async def report(lease: Lease | None) -> None:
            running.lease, running.is_known = lease, True
            runtime.queue_reconcile()

        previous = await _find_previous(runtime, name)
        with running.scope:
            while True:
                try:
                    async with self._open_wire(name) as wire:
                        client = Client(
                            link=name,
                            wire=wire,
                            hardware_address=running.hardware_address,
                            report=report,
                            log=self._log,
                            identifier=make_identifier(running.spec, running.hardware_address),
                            previous=previous,
                        )
                        running.client = client
                        await client.run()
                except OSError as error:
                    self._log.warning(f"DHCP on {name}: cannot listen: {error.strerror}")
                await trio.sleep(OPEN_RETRY)

    async def _write(self, runtime: ControllerRuntime) -> None:
        """Write the specs of all leases, and remove those that no lease contains any more."""
        kept: set[tuple[str, str]] = set()
        undecided = tuple(
            f"{layered_id(_LAYER, _prefix(name))}/"
            for name, running in self._running.items()
            if not running.is_known
        )
        for running in self._running.values():
            if running.lease is None:
                continue
            for kind, name, spec in make_specs(make_config(running.spec, running.lease)):
                spec_id = layered_id(_LAYER, f"{_prefix(running.spec.link_name)}/{name}")
                kept.add((kind.type, spec_id))
                await runtime.put(kind, spec_id, spec, namespace=CONFIG_NAMESPACE)
        for kind in _KINDS:
            for resource in await runtime.list(kind, namespace=CONFIG_NAMESPACE):
                if resource.metadata.owner != self.name or (kind.type, resource.id) in kept:
                    continue
                if not undecided or not resource.id.startswith(undecided):
                    await runtime.remove(kind, resource.id, namespace=CONFIG_NAMESPACE)


def make_config(spec: OperatorSpecSpec, lease: Lease) -> PlatformConfigSpec:
    """Everything that a lease contains."""
    link, metric = spec.link_name, spec.dhcp4.route_metric
    config = PlatformConfigSpec()
    if lease.mtu:
        config.links.append(LinkSpecSpec(name=link, up=True, mtu=lease.mtu, config_layer=_LAYER))
    config.addresses.append(make_address(link, lease.address, _LAYER, priority=metric))
    if not spec.dhcp4.skip_routes:
        seen: set[object] = set()
        for route in lease.routes:
            if route.destination in seen:
                continue
            seen.add(route.destination)
            gateway = route.gateway
            if gateway is not None and not _is_reachable(gateway, lease):
                # RFC 3442: a gateway outside of the network is on the link all the same.
                on_link = ip_network(gateway)
                config.routes.append(_make_route(spec, on_link, None, lease.address))
            config.routes.append(_make_route(spec, route.destination, gateway, lease.address))
    if lease.hostname and not spec.dhcp4.skip_hostname_request:
        hostname = make_hostname(lease.hostname, _LAYER)
        hostname.domainname = hostname.domainname or lease.domain
        config.hostnames.append(hostname)
    if lease.resolvers:
        servers = [make_ip(server) for server in lease.resolvers]
        config.resolvers.append(
            ResolverSpecSpec(
                dns_servers=servers,
                name_servers=[NameServerSpec(addr=server) for server in servers],
                search_domains=lease.search or ([lease.domain] if lease.domain else []),
                config_layer=_LAYER,
            )
        )
    if lease.time_servers:
        servers = [str(server) for server in lease.time_servers]
        config.time_servers.append(TimeServerSpecSpec(ntp_servers=servers, config_layer=_LAYER))
    return config


def make_identifier(spec: OperatorSpecSpec, hardware_address: bytes) -> tuple[int, bytes] | None:
    """Option 61: by default the hardware address, or nothing, or a DUID."""
    wanted = spec.dhcp4.client_identifier
    if wanted.client_identifier == enums_pb2.CLIENT_IDENTIFIER_DUID:
        duid = bytes.fromhex(wanted.duid_raw_hex.replace(":", ""))
        return _DUID, hardware_address[-4:].rjust(4, b"\0") + duid
    if wanted.client_identifier == enums_pb2.CLIENT_IDENTIFIER_MAC:
        return _MAC, hardware_address
    return None


def _is_reachable(gateway: IPv4Address, lease: Lease) -> bool:
    return (
        any(route.gateway is None and gateway in route.destination for route in lease.routes)
        or gateway in lease.address.network
    )


def _make_route(
    spec: OperatorSpecSpec, destination: Network, gateway: Address | None, source: Interface
) -> RouteSpecSpec:
    return make_route(
        spec.link_name,
        destination,
        gateway,
        _LAYER,
        metric=spec.dhcp4.route_metric,
        source=source.ip,
        protocol=enums_pb2.PROTOCOL_DHCP,
    )


def _prefix(link: str) -> str:
    return f"dhcp4/{link}"


async def _find_previous(runtime: ControllerRuntime, link: str):
    from talos.networkd.dhcp.client import parse_previous

    start = f"{layered_id(_LAYER, _prefix(link))}/{link}/"
    for resource in await runtime.list(kinds.ADDRESS_SPEC, namespace=CONFIG_NAMESPACE):
        if resource.id.startswith(start):
            return parse_previous(resource.id.removeprefix(start))
    return None
