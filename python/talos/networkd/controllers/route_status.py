"""RouteStatus: the routes of the kernel."""

from talos.api.definitions.network_pb2 import RouteStatusSpec
from talos.networkd.addresses import make_ip, make_prefix, number, route_state_id
from talos.networkd.controllers.kernel import KernelReconciler
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Output
from talos.system.net.links import RouteState, Topic

# IPv4 and IPv6; the kernel lists routes of multicast and other families as well.
_FAMILIES = (2, 10)


class RouteStatusController(KernelReconciler):
    """Writes one RouteStatus per route of every table."""

    name = "network.RouteStatusController"
    outputs = (Output(kinds.ROUTE_STATUS),)
    topics = Topic.ROUTE | Topic.LINK | Topic.ADDRESS

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the kernel's state."""
        names = {link.index: link.name for link in await self.links.links()}
        async with runtime.track_outputs():
            written: set[str] = set()
            for route in await self.links.routes():
                if route.family not in _FAMILIES:
                    continue
                name = names.get(route.link_index, "")
                status = make_status(route, name)
                route_id = route_state_id(route, name)
                if route_id in written:
                    # Two links in one network have a route to it each, under one id; the kernel
                    # uses the first.
                    continue
                written.add(route_id)
                await runtime.put(kinds.ROUTE_STATUS, route_id, status)


def make_status(route: RouteState, link: str) -> RouteStatusSpec:
    """A route as the API shows it."""
    status = RouteStatusSpec(
        family=number(route.family),
        table=number(route.table),
        scope=number(route.scope),
        type=number(route.type),
        protocol=number(route.protocol),
        out_link_index=route.link_index,
        out_link_name=link,
        priority=route.priority,
        flags=route.flags,
        mtu=route.mtu,
    )
    if route.destination is not None:
        status.destination.CopyFrom(make_prefix(route.destination))
    if route.source is not None:
        status.source.CopyFrom(make_ip(route.source))
    if route.gateway is not None:
        status.gateway.CopyFrom(make_ip(route.gateway))
    return status
