"""What an instance runs with: its config, once links and addresses are there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from talos.api.common.common_pb2 import NetIPPrefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    AddressStatusSpec,
    BGPInstanceConfigSpec,
    BGPNeighborConfigSpec,
    LinkStatusSpec,
)
from talos.bgpd.bfd.session import Timers
from talos.bgpd.messages.open_message import MIN_HOLD_TIME
from talos.bgpd.messages.prefixes import Address, Network
from talos.resource.addresses import parse_interface, parse_ip
from talos.system.net.links import Interface

HOLD_TIME = 90
"""Seconds, unless configured."""
MAX_HOLD_TIME = 0xFFFF
VRF = "vrf"
"""The kind of such a link."""


class NotReadyError(Exception):
    """What an instance needs is not there yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborSettings:
    """One neighbour: its address, or the link on which it is the only router."""

    address: Address | None
    link: str
    peer_asn: int
    local_asn: int
    hold_time: int
    is_passive: bool
    replaces_peer: bool
    bfd: Timers | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """What is taken from another instance."""

    instance: str
    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What restarts a speaker when it changes."""

    local_asn: int
    router_id: IPv4Address
    is_multipath: bool
    max_paths: int
    vrf: str
    table: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSettings:
    """One instance."""

    name: str
    identity: Identity
    sources: Mapping[int, Address]
    """By the version of IP: the source address of packets on installed routes."""
    has_routes: bool
    networks: frozenset[Network]
    """Those that it originates."""
    addresses: tuple[tuple[str, Interface], ...]
    """Links of its domain, with the node's addresses on them."""
    neighbors: tuple[NeighborSettings, ...]
    imports: tuple[ImportSettings, ...]

    def find_link(self, address: Address) -> str:
        """The link in whose network an address is, empty when there is none."""
        matches = [
            (place.network.prefixlen, link) for link, place in self.addresses if address in place.network
        ]
        return max(matches, default=(0, ""))[1]


def make_settings(
    name: str,
    spec: BGPInstanceConfigSpec,
    links: Mapping[str, LinkStatusSpec],
    addresses: Sequence[AddressStatusSpec],
) -> InstanceSettings:
    """The settings of an instance; NotReadyError. ``links`` are by their names."""
    domain = _find_domain(spec.vrf, links)
    announced = {_resolve(link, domain, spec.vrf) for link in spec.advertise_links}
    present = tuple(
        (address.link_name, parse_interface(address.address))
        for address in addresses
        if address.link_name in domain
    )
    source = parse_ip(spec.route_source)
    if source is not None and source not in {interface.ip for _, interface in present}:
        raise NotReadyError(f"routeSource {source} is no address of the node{_in(spec.vrf)}")
    own = [interface for link, interface in present if link in announced and _is_announced(interface.ip)]
    return InstanceSettings(
        name=name,
        identity=Identity(
            local_asn=spec.local_asn,
            router_id=_find_router_id(spec, own),
            is_multipath=spec.multipath,
            max_paths=spec.max_paths,
            vrf=spec.vrf,
            table=int(spec.vrf_table) or enums_pb2.TABLE_MAIN,
        ),
        sources={} if source is None else {source.version: source},
        has_routes=spec.install_routes,
        networks=frozenset(interface.network for interface in own),
        addresses=present,
        neighbors=tuple(_make_neighbor(neighbor, spec, domain) for neighbor in spec.neighbors),
        imports=tuple(
            ImportSettings(instance=item.bgp_instance, networks=tuple(_parse_networks(item.prefixes)))
            for item in spec.import_routes
        ),
    )


def _in(vrf: str) -> str:
    return f" in the VRF {vrf}" if vrf else ""


def _find_domain(vrf: str, links: Mapping[str, LinkStatusSpec]) -> Mapping[str, LinkStatusSpec]:
    """The links whose routes are in one table: those of a VRF, or those of none."""
    vrfs = {link.index for link in links.values() if link.kind == VRF}
    if not vrf:
        return {
            name: link
            for name, link in links.items()
            if link.index not in vrfs and link.master_index not in vrfs
        }
    if vrf not in links or links[vrf].kind != VRF:
        raise NotReadyError(f"there is no VRF {vrf}")
    index = links[vrf].index
    return {name: link for name, link in links.items() if index in {link.index, link.master_index}}


def _resolve(text: str, domain: Mapping[str, LinkStatusSpec], vrf: str) -> str:
    """The name of a link that is called by its name or an alias."""
    if text in domain:
        return text
    for name, link in domain.items():
        if text in {link.alias, *link.alt_names}:
            return name
    raise NotReadyError(f"there is no link {text}{_in(vrf)}")


def _is_announced(address: Address) -> bool:
    return not (address.is_loopback or address.is_link_local)


def _find_router_id(spec: BGPInstanceConfigSpec, own: Sequence[Interface]) -> IPv4Address:
    given = parse_ip(spec.router_id)
    if isinstance(given, IPv4Address):
        return given
    candidates = [interface.ip for interface in own if isinstance(interface.ip, IPv4Address)]
    if not candidates:
        raise NotReadyError("there is no routerID, and the advertised links have no IPv4 address")
    return min(candidates)


def _parse_networks(prefixes: Iterable[NetIPPrefix]) -> Iterator[Network]:
    for prefix in prefixes:
        yield parse_interface(prefix).network


def _make_neighbor(
    neighbor: BGPNeighborConfigSpec, spec: BGPInstanceConfigSpec, domain: Mapping[str, LinkStatusSpec]
) -> NeighborSettings:
    hold_time = neighbor.hold_time.seconds
    bfd = None
    if neighbor.HasField("bfd"):
        bfd = Timers.make(
            transmit=neighbor.bfd.transmit_interval.ToMicroseconds(),
            receive=neighbor.bfd.receive_interval.ToMicroseconds(),
            multiplier=neighbor.bfd.detect_multiplier,
        )
    return NeighborSettings(
        address=parse_ip(neighbor.address),
        link=_resolve(neighbor.link, domain, spec.vrf) if neighbor.link else "",
        peer_asn=neighbor.peer_asn,
        local_asn=neighbor.local_asn or spec.local_asn,
        hold_time=min(max(hold_time, MIN_HOLD_TIME), MAX_HOLD_TIME) if hold_time else HOLD_TIME,
        is_passive=neighbor.passive,
        replaces_peer=bool(neighbor.local_asn),
        bfd=bfd,
    )
