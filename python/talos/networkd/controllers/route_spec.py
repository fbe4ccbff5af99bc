"""RouteSpec: routes applied to the kernel."""

from collections.abc import Mapping
from dataclasses import replace

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import RouteSpecSpec
from talos.networkd.controllers.kernel import KernelReconciler
from talos.resource import kinds
from talos.resource.addresses import parse_ip, parse_network, route_state_id
from talos.resource.controller.controller import ControllerRuntime, Input, InputStrength
from talos.resource.resource import Phase, Resource
from talos.system.net.links import (
    RTNH_F_ONLINK,
    RTPROT_STATIC,
    LinkState,
    Network,
    NextHop,
    RouteState,
    Topic,
)

IP6_PRIORITY = 1024
"""What the kernel makes of a priority of 0 of IPv6, <net/ipv6.h>: IP6_RT_PRIO_USER."""


class RouteSpecController(KernelReconciler):
    """Adds routes that are missing, and removes those whose spec is removed, no others.

    Of two with one destination and metric that can both be set, that of the higher layer is.
    """

    name = "network.RouteSpecController"
    inputs = (Input(kinds.ROUTE_SPEC, strength=InputStrength.STRONG),)
    topics = Topic.LINK | Topic.ADDRESS | Topic.ROUTE

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Apply the differences."""
        links = {link.name: link for link in await self.links.links()}
        names = {link.index: link.name for link in links.values()}
        sources = {address.address.ip for address in await self.links.addresses()}
        present = {
            route_state_id(route, names.get(route.link_index, "")): route
            for route in await self.links.routes()
        }
        usable: dict[Place, Resource[RouteSpecSpec]] = {}
        for resource in await runtime.list(kinds.ROUTE_SPEC):
            spec, link = resource.spec, links.get(resource.spec.out_link_name)
            wanted = make_state(spec, links)
            key = route_state_id(wanted, spec.out_link_name)
            if resource.metadata.phase is Phase.TEARING_DOWN:
                if key in present:
                    self.log.info(f"route {resource.id} removed")
                    await self.attempt(f"removing route {resource.id}", self.links.remove_route(wanted))
                await runtime.remove_finalizer(kinds.ROUTE_SPEC, resource.id)
                continue
            if not await self.hold(runtime, kinds.ROUTE_SPEC, resource):
                continue
            hops = [links.get(hop.out_link_name) for hop in spec.next_hops]
            needed = [link, *hops] if spec.out_link_name else hops
            if any(found is None or not found.is_up for found in needed):
                # The kernel refuses routes over links that are off; and sends an event when that ends.
                continue
            if wanted.source is not None and wanted.source not in sources:
                continue
            place = wanted.family, wanted.table, wanted.destination, wanted.priority
            other = usable.setdefault(place, resource)
            if other is not resource:
                # The kernel has one route for a place: each would replace the other for ever.
                first, second = sorted((other, resource), key=_rank)
                usable[place] = first
                text = f"route {second.id} is not set: {first.id} has the same destination and metric"
                self.log.once(text, key=second.id)
        for resource in usable.values():
            await self._set(resource, links, present)

    async def _set(
        self,
        resource: Resource[RouteSpecSpec],
        links: Mapping[str, LinkState],
        present: Mapping[str, RouteState],
    ) -> None:
        wanted = make_state(resource.spec, links)
        key = route_state_id(wanted, resource.spec.out_link_name)
        if key in present and is_same(present[key], wanted):
            return
        if await self.attempt(f"route {resource.id}", self.links.add_route(wanted)):
            self.log.info(f"route {resource.id} set")


type Place = tuple[int, int, Network | None, int]
"""Family, table, destination and priority: what distinguishes routes for the kernel."""


def _rank(resource: Resource[RouteSpecSpec]) -> tuple[int, str]:
    """The route of the higher layer comes first."""
    return -resource.spec.config_layer, resource.id


def make_state(spec: RouteSpecSpec, links: Mapping[str, LinkState]) -> RouteState:
    """The route as the request to the kernel."""

    def find_index(name: str) -> int:
        return links[name].index if name in links else 0

    hops = tuple(
        NextHop(
            gateway=parse_ip(hop.gateway), link_index=find_index(hop.out_link_name), weight=hop.weight or 1
        )
        for hop in spec.next_hops
    )
    return RouteState(
        family=int(spec.family),
        destination=parse_network(spec.destination),
        gateway=parse_ip(spec.gateway),
        source=parse_ip(spec.source),
        link_index=find_index(spec.out_link_name),
        table=int(spec.table),
        priority=spec.priority or (IP6_PRIORITY if spec.family == enums_pb2.FAMILY_INET6 else 0),
        scope=int(spec.scope),
        type=int(spec.type),
        protocol=int(spec.protocol) or RTPROT_STATIC,
        mtu=spec.mtu,
        flags=spec.flags & RTNH_F_ONLINK,
        next_hops=hops,
    )


def is_same(present: RouteState, wanted: RouteState) -> bool:
    """Whether the kernel's route is the wanted one; it adds flags, and a source of its own choice."""
    same = replace(present, flags=present.flags & RTNH_F_ONLINK)
    if wanted.source is None:
        same = replace(same, source=None)
    return same == wanted
