"""Routes between pyroute2's messages and what controllers compare."""

import socket
from ipaddress import ip_network
from typing import Any

from talos.system.net.addresses import optional_address
from talos.system.net.links import RTNH_F_ONLINK, Address, Network, NextHop, RouteState

# RTNH_F_DEAD and RTNH_F_LINKDOWN of <linux/rtnetlink.h>, which the link's state shows as well: they change
# without a notification.
_SILENT_FLAGS = 0x1 | 0x10
# RTA_METRICS' RTAX_MTU.
_MTU_METRIC = "RTAX_MTU"


def parse_route(message: Any) -> RouteState:
    """A route out of the kernel's message."""
    destination = message.get("RTA_DST")
    metrics = message.get("RTA_METRICS")
    return RouteState(
        family=message["family"],
        destination=ip_network(f"{destination}/{message['dst_len']}") if destination else None,
        gateway=_parse_gateway(message),
        source=optional_address(message.get("RTA_PREFSRC")),
        link_index=message.get("RTA_OIF") or 0,
        table=message.get("RTA_TABLE") or message["table"],
        priority=message.get("RTA_PRIORITY") or 0,
        scope=message["scope"],
        type=message["type"],
        flags=message["flags"] & ~_SILENT_FLAGS,
        protocol=message["proto"],
        mtu=(metrics.get(_MTU_METRIC) or 0) if metrics else 0,
        next_hops=tuple(map(_parse_hop, message.get("RTA_MULTIPATH") or ())),
    )


def _parse_hop(hop: Any) -> NextHop:
    return NextHop(gateway=_parse_gateway(hop), link_index=hop["oif"], weight=hop["hops"] + 1)


def _parse_gateway(message: Any) -> Address | None:
    """That of a route or of a hop; one of another family than the route's has an attribute of its own."""
    via = message.get("RTA_VIA")
    return optional_address(via["addr"] if via else message.get("RTA_GATEWAY"))


def place_of(route: RouteState) -> tuple[int, int, Network | None, int]:
    """What distinguishes routes for the kernel, but for those that were appended."""
    return route.family, route.table, route.destination, route.priority


def make_route_attributes(route: RouteState) -> dict[str, Any]:
    """A request's attributes."""
    attributes: dict[str, Any] = {
        "family": route.family,
        "dst": str(route.destination) if route.destination is not None else "default",
        "table": route.table,
        "type": route.type,
        "scope": route.scope,
        "proto": route.protocol,
    }
    if route.gateway is not None:
        attributes |= _make_gateway(route.gateway, route.family)
    if route.source is not None:
        attributes["prefsrc"] = str(route.source)
    if route.link_index:
        attributes["oif"] = route.link_index
    if route.priority:
        attributes["priority"] = route.priority
    if route.mtu:
        attributes["metrics"] = {"mtu": route.mtu}
    if route.flags & RTNH_F_ONLINK:
        attributes["flags"] = RTNH_F_ONLINK
    if route.next_hops:
        attributes["multipath"] = [_make_hop(hop, route.family) for hop in route.next_hops]
    return attributes


def _make_hop(hop: NextHop, family: int) -> dict[str, Any]:
    attributes: dict[str, Any] = {"oif": hop.link_index, "hops": hop.weight - 1}
    if hop.gateway is not None:
        attributes |= _make_gateway(hop.gateway, family)
    return attributes


def _make_gateway(gateway: Address, family: int) -> dict[str, Any]:
    own = socket.AF_INET if gateway.version == 4 else socket.AF_INET6
    return {"gateway": str(gateway)} if own == family else {"via": {"family": own, "addr": str(gateway)}}
