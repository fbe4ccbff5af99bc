"""Paths as routes of the kernel: RouteSpecs, which networkd sets."""

from collections.abc import Sequence

from talos.api.addresses import make_ip, make_prefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import RouteNextHop, RouteSpecSpec
from talos.bgpd.messages.prefixes import Address, Network
from talos.bgpd.rib.paths import Path
from talos.bgpd.settings import InstanceSettings
from talos.resource.addresses import family_of, route_spec_id


def make_route(network: Network, paths: Sequence[Path], settings: InstanceSettings) -> RouteSpecSpec | None:
    """The route to a network by its best paths, the best one first; None when no next hop is usable."""
    wanted = paths if settings.identity.is_multipath else paths[:1]
    found = [hop for path in wanted if (hop := find_hop(path, settings)) is not None]
    hops = sorted(set(found), key=lambda hop: (hop[0].version, hop[0].packed, hop[1]))
    if not hops:
        return None
    spec = RouteSpecSpec(
        family=family_of(network),
        scope=enums_pb2.SCOPE_GLOBAL,
        type=enums_pb2.TYPE_UNICAST,
        protocol=enums_pb2.PROTOCOL_BGP,
        config_layer=enums_pb2.CONFIG_OPERATOR,
    )
    setattr(spec, "table", settings.identity.table)  # noqa: B010 - any number is a table's
    if network.prefixlen:
        spec.destination.CopyFrom(make_prefix(network))
    if source := settings.sources.get(network.version):
        spec.source.CopyFrom(make_ip(source))
    if len(hops) == 1:
        [(gateway, link)] = hops
        spec.gateway.CopyFrom(make_ip(gateway))
        spec.out_link_name = link
    else:
        spec.next_hops.extend(
            RouteNextHop(gateway=make_ip(gateway), out_link_name=link, weight=1) for gateway, link in hops
        )
    return spec


def find_hop(path: Path, settings: InstanceSettings) -> tuple[Address, str] | None:
    """The gateway and its link. The peer's address on the link before another that is reached through it."""
    hop, link = path.next_hop, path.source.link
    if hop.link_local is not None and link:
        return hop.link_local, link
    if hop.address.is_link_local or hop.address.is_unspecified:
        return None
    link = settings.find_link(hop.address) or link
    return (hop.address, link) if link else None


def make_id(instance: str, spec: RouteSpecSpec) -> str:
    """The id of a route's spec: ``bgp/fabric/inet4/10.0.0.1/192.0.2.0/24/0``."""
    return f"bgp/{instance}/{route_spec_id(spec)}"
