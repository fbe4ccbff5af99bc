"""AddressStatus, RouteStatus, RoutingRuleStatus: the kernel's tables, a resource for each entry.

One controller with a description for each table: what differs is how an entry is called and shown.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller

from google.protobuf.message import Message

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions.network_pb2 import AddressStatusSpec, RouteStatusSpec, RoutingRuleStatusSpec
from talos.networkd.controllers.kernel import KernelReconciler
from talos.resource import kinds
from talos.resource.addresses import family_of, make_address_id, make_rule_id, number, route_state_id
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.resource.kind import Kind
from talos.system.logging import Log
from talos.system.net.links import Address, AddressState, Links, RouteState, RuleState, Topic

ADDRESS_STATUS = "network.AddressStatusController"
_FAMILIES = (2, 10)
"""IPv4 and IPv6; the kernel lists routes of multicast, and rules of other families, as well."""

type Names = Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusTable[State: Hashable, Spec: Message]:
    """How a table is shown.

    ``identify`` and ``make`` get the names of links by their index; without an id an entry is left out.
    ``shared``: others write resources of this kind as well.
    """

    name: str
    kind: Kind[Spec]
    topics: Topic
    read: Callable[[Links], Awaitable[Sequence[State]]]
    identify: Callable[[State, Names], str]
    make: Callable[[State, Names], Spec]
    shared: bool = False


class KernelStatusController[State: Hashable, Spec: Message](KernelReconciler):
    """Writes one status for each entry of a table; of a long one those that have changed."""

    def __init__(self, shown: StatusTable[State, Spec], links: Links, log: Log) -> None:
        super().__init__(links, log)
        # One class, a controller for each kind: each instance has a name and topics of its own.
        self.name = shown.name  # pyright: ignore[reportAttributeAccessIssue]
        self.topics = shown.topics  # pyright: ignore[reportAttributeAccessIssue]
        self.outputs = (Output(shown.kind, shared=shown.shared),)
        self._shown = shown
        self._written: dict[State, tuple[str, str]] = {}
        """Each entry's link and id."""

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the kernel's state."""
        shown, written, ids = self._shown, dict[State, tuple[str, str]](), set[str]()
        known, self._written = self._written, {}
        names = {link.index: link.name for link in await self.links.links()}
        async with runtime.track_outputs():
            for state in await shown.read(self.links):
                link = names.get(getattr(state, "link_index", 0), "")
                entry = known.get(state)
                key = entry[1] if entry is not None and entry[0] == link else shown.identify(state, names)
                if not key or key in ids:
                    # Two links in one network have a route to it each, under one id; the kernel
                    # uses the first.
                    continue
                ids.add(key)
                if entry == (link, key):
                    runtime.keep(shown.kind, key)
                else:
                    await runtime.put(shown.kind, key, shown.make(state, names))
                written[state] = link, key
        self._written = written


def make_kernel_status_controllers(links: Links, log: Log) -> list[Controller]:
    """One for each table but that of the links."""
    return [
        KernelStatusController(
            StatusTable(
                name=ADDRESS_STATUS,
                kind=kinds.ADDRESS_STATUS,
                topics=Topic.ADDRESS | Topic.LINK,
                read=methodcaller("addresses"),
                identify=_address_id,
                make=make_address_status,
                # A platform may add external addresses, which no link has.
                shared=True,
            ),
            links,
            log,
        ),
        KernelStatusController(
            StatusTable(
                name="network.RouteStatusController",
                kind=kinds.ROUTE_STATUS,
                topics=Topic.ROUTE | Topic.LINK,
                read=methodcaller("routes"),
                identify=_route_id,
                make=make_route_status,
            ),
            links,
            log,
        ),
        KernelStatusController(
            StatusTable(
                name="network.RoutingRuleStatusController",
                kind=kinds.ROUTING_RULE_STATUS,
                topics=Topic.RULE,
                read=methodcaller("rules"),
                identify=_rule_id,
                make=make_rule_status,
            ),
            links,
            log,
        ),
    ]


def _address_id(address: AddressState, names: Names) -> str:
    # Without a name the link was removed between the two questions.
    name = names.get(address.link_index)
    return make_address_id(name, address.address) if name is not None else ""


def _route_id(route: RouteState, names: Names) -> str:
    return route_state_id(route, names.get(route.link_index, "")) if route.family in _FAMILIES else ""


def _rule_id(rule: RuleState, _: Names) -> str:
    return make_rule_id(rule.family, rule.priority) if rule.family in _FAMILIES else ""


def make_address_status(address: AddressState, names: Names) -> AddressStatusSpec:
    """An address as the API shows it."""
    status = AddressStatusSpec(
        address=make_prefix(address.address),
        link_index=address.link_index,
        link_name=names[address.link_index],
        family=family_of(address.address),
        scope=number(address.scope),
        flags=address.flags,
        priority=address.priority,
    )
    addresses: dict[str, Address | None] = {
        "local": address.local,
        "broadcast": address.broadcast,
        "anycast": address.anycast,
        "multicast": address.multicast,
    }
    for field, value in addresses.items():
        if value is not None:
            getattr(status, field).CopyFrom(make_ip(value))
    return status


def make_route_status(route: RouteState, names: Names) -> RouteStatusSpec:
    """A route as the API shows it."""
    status = RouteStatusSpec(
        family=number(route.family),
        table=number(route.table),
        scope=number(route.scope),
        type=number(route.type),
        protocol=number(route.protocol),
        out_link_index=route.link_index,
        out_link_name=names.get(route.link_index, ""),
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
    for hop in route.next_hops:
        shown = status.next_hops.add(out_link_name=names.get(hop.link_index, ""), weight=hop.weight)
        if hop.gateway is not None:
            shown.gateway.CopyFrom(make_ip(hop.gateway))
    return status


def make_rule_status(rule: RuleState, _: Names) -> RoutingRuleStatusSpec:
    """A rule as the API shows it."""
    status = RoutingRuleStatusSpec(
        family=number(rule.family),
        table=number(rule.table),
        priority=rule.priority,
        action=number(rule.action),
        iif_name=rule.input_link,
        oif_name=rule.output_link,
        fw_mark=rule.mark,
        fw_mask=rule.mask,
    )
    if rule.source is not None:
        status.src.CopyFrom(make_prefix(rule.source))
    if rule.destination is not None:
        status.dst.CopyFrom(make_prefix(rule.destination))
    return status
