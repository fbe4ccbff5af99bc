"""OperatorSpec: one DHCP client per spec, whose lease is written as specs of its layer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Protocol

import trio
from google.protobuf.message import Message

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import LinkStatusSpec, OperatorSpecSpec, PlatformConfigSpec
from talos.networkd.controllers.platform_config import make_specs
from talos.networkd.dhcp.wire import OpenWire
from talos.networkd.dhcp6.wire import OpenWire6
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.resource import kinds
from talos.resource.addresses import operator_id, parse_interface
from talos.resource.changes import copy_spec
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.kind import Kind
from talos.resource.resource import Phase
from talos.system.logging import Log

if TYPE_CHECKING:
    from talos.networkd.dhcp6.client import Client6

OPEN_RETRY = 5.0
"""Seconds before opening a socket on a link is retried."""

LAYER = enums_pb2.CONFIG_OPERATOR
_UP_STATES = (enums_pb2.OPER_STATE_UP, enums_pb2.OPER_STATE_UNKNOWN)
_CLIENTS = (enums_pb2.OPERATOR_DHCP4, enums_pb2.OPERATOR_DHCP6)
_KINDS: tuple[Kind[Message], ...] = (
    kinds.LINK_SPEC,
    kinds.ADDRESS_SPEC,
    kinds.ROUTE_SPEC,
    kinds.HOSTNAME_SPEC,
    kinds.RESOLVER_SPEC,
    kinds.TIME_SERVER_SPEC,
)


class Runnable(Protocol):
    """A client, as the controller uses it."""

    def check(self) -> None:
        """The link was down: verify the lease."""
        ...

    async def run(self) -> None:
        """Obtain a lease and renew it until cancelled."""
        ...


@dataclass(slots=True)
class _Running:
    spec: OperatorSpecSpec
    index: int
    hardware_address: bytes
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    client: Runnable | None = None
    client6: "Client6 | None" = None
    is_up: bool = True
    config: PlatformConfigSpec | None = None
    """What the lease contains, None without one."""
    is_known: bool = False
    """Whether the client has reported; until then the specs of an earlier run stay."""


class OperatorSpecController(Controller):
    """Starts and stops clients. A lease outlives a pulled cable, but not its link or its spec."""

    name = "network.OperatorSpecController"
    inputs = (Input(kinds.OPERATOR_SPEC), Input(kinds.LINK_STATUS), Input(kinds.ADDRESS_STATUS))
    outputs = tuple(Output(kind, shared=True) for kind in _KINDS)

    def __init__(self, open_wire: OpenWire, open_wire6: OpenWire6, log: Log) -> None:
        self._open_wire = open_wire
        self._open_wire6 = open_wire6
        self._log = log
        self._running: dict[str, _Running] = {}

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow specs and links until cancelled."""
        self._running.clear()
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                await self._follow(runtime, nursery)
                await self._find_duplicates(runtime)
                await self._write(runtime)
                runtime.reset_backoff()

    async def _follow(self, runtime: ControllerRuntime, nursery: trio.Nursery) -> None:
        links = {link.id: link.spec for link in await runtime.list(kinds.LINK_STATUS)}
        wanted: dict[str, OperatorSpecSpec] = {}
        for resource in await runtime.list(kinds.OPERATOR_SPEC):
            if resource.metadata.phase is Phase.RUNNING and resource.spec.operator in _CLIENTS:
                wanted[operator_id(resource.spec)] = resource.spec
        for name, running in list(self._running.items()):
            link = links.get(running.spec.link_name)
            known = (running.index, running.hardware_address)
            is_same_link = link is not None and (link.index, link.hardware_addr) == known
            if not is_same_link or wanted.get(name) != running.spec:
                running.scope.cancel()
                del self._running[name]
        for name, spec in wanted.items():
            link = links.get(spec.link_name)
            if link is not None:
                self._follow_link(runtime, nursery, name, spec, link)

    def _follow_link(
        self,
        runtime: ControllerRuntime,
        nursery: trio.Nursery,
        name: str,
        spec: OperatorSpecSpec,
        link: LinkStatusSpec,
    ) -> None:
        is_up = link.operational_state in _UP_STATES and link.link_state
        running = self._running.get(name)
        if running is None:
            if is_up and link.hardware_addr:
                started = _Running(copy_spec(spec), link.index, link.hardware_addr)
                self._running[name] = started
                nursery.start_soon(self._run_client, runtime, started)
            return
        if is_up and not running.is_up and running.client is not None:
            running.client.check()
        running.is_up = is_up

    async def _find_duplicates(self, runtime: ControllerRuntime) -> None:
        """Give the clients the addresses of their links that the kernel has found on other machines."""
        clients = [(running.spec.link_name, running.client6) for running in self._running.values()]
        if not any(client for _, client in clients):
            return
        found: dict[str, set[IPv6Address]] = {}
        for status in await runtime.list(kinds.ADDRESS_STATUS):
            if status.spec.flags & enums_pb2.ADDRESS_DAD_FAILED:
                address = parse_interface(status.spec.address).ip
                if isinstance(address, IPv6Address):
                    found.setdefault(status.spec.link_name, set()).add(address)
        for link, client in clients:
            if client is not None:
                client.decline(frozenset(found.get(link, ())))

    async def _run_client(self, runtime: ControllerRuntime, running: _Running) -> None:
        def report(config: PlatformConfigSpec | None) -> None:
            running.config, running.is_known = config, True
            runtime.queue_reconcile()

        run = self._run_dhcp6 if running.spec.operator == enums_pb2.OPERATOR_DHCP6 else self._run_dhcp4
        with running.scope:
            while True:
                try:
                    await run(runtime, running, report)
                except OSError as error:
                    self._log.warning(f"DHCP on {running.spec.link_name}: cannot listen: {error.strerror}")
                await trio.sleep(OPEN_RETRY)

    async def _run_dhcp4(
        self,
        runtime: ControllerRuntime,
        running: _Running,
        report: Callable[[PlatformConfigSpec | None], None],
    ) -> None:
        # Nodes without DHCP need none of it.
        from talos.networkd.dhcp.client import Client
        from talos.networkd.dhcp.lease import Lease
        from talos.networkd.lease_config import make_config4, make_identifier

        async def take(lease: Lease | None) -> None:
            report(make_config4(running.spec, lease) if lease is not None else None)

        name = running.spec.link_name
        previous = await _find_previous(runtime, running.spec)
        async with self._open_wire(name) as wire:
            running.client = Client(
                link=name,
                wire=wire,
                hardware_address=running.hardware_address,
                report=take,
                log=self._log,
                identifier=make_identifier(running.spec, running.hardware_address),
                previous=previous,
            )
            await running.client.run()

    async def _run_dhcp6(
        self,
        _: ControllerRuntime,
        running: _Running,
        report: Callable[[PlatformConfigSpec | None], None],
    ) -> None:
        from talos.networkd.dhcp6.client import Client6
        from talos.networkd.dhcp6.message import Lease6
        from talos.networkd.lease_config import make_config6, make_duid6

        async def take(lease: Lease6 | None) -> None:
            report(make_config6(running.spec, lease) if lease is not None else None)

        name = running.spec.link_name
        async with self._open_wire6(name) as wire:
            running.client = running.client6 = Client6(
                link=name,
                wire=wire,
                duid=make_duid6(running.spec, running.hardware_address),
                # The same after each boot, and another one for each link of a node.
                association=int.from_bytes(running.hardware_address[-4:]),
                report=take,
                log=self._log,
            )
            await running.client.run()

    async def _write(self, runtime: ControllerRuntime) -> None:
        """Write the specs of all leases, and remove those that no lease contains any more."""
        kept: set[tuple[str, str]] = set()
        undecided = tuple(
            f"{layered_id(LAYER, name)}/" for name, running in self._running.items() if not running.is_known
        )
        for operator, running in self._running.items():
            if running.config is None:
                continue
            for kind, name, spec in make_specs(running.config):
                spec_id = layered_id(LAYER, f"{operator}/{name}")
                kept.add((kind.type, spec_id))
                await runtime.put(kind, spec_id, spec, namespace=CONFIG_NAMESPACE)
        for kind in _KINDS:
            for resource in await runtime.list(kind, namespace=CONFIG_NAMESPACE):
                if resource.metadata.owner != self.name or (kind.type, resource.id) in kept:
                    continue
                if not undecided or not resource.id.startswith(undecided):
                    await runtime.remove(kind, resource.id, namespace=CONFIG_NAMESPACE)


async def _find_previous(runtime: ControllerRuntime, operator: OperatorSpecSpec):
    from talos.networkd.dhcp.client import parse_previous

    start = f"{layered_id(LAYER, operator_id(operator))}/{operator.link_name}/"
    for resource in await runtime.list(kinds.ADDRESS_SPEC, namespace=CONFIG_NAMESPACE):
        if resource.id.startswith(start):
            return parse_previous(resource.id.removeprefix(start))
    return None
