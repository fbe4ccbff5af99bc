"""Checks of BGPInstanceConfig."""

import ipaddress
from collections.abc import Iterator

from talos.config.check.forms import check_present
from talos.config.check.note import Check, Note
from talos.config.documents.network.bgp_instance import (
    BGPImportRoute,
    BGPInstanceConfig,
    BGPNeighborConfig,
)

type _Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _instance(document: BGPInstanceConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_present(document.local_asn, at.below("localASN"))
    if document.router_id and document.router_id.ip.version != 4:
        yield at.below("routerID").find(f'"{document.router_id}" is no IPv4 address')
    seen: set[str] = set()
    for index, neighbor in enumerate(document.neighbors or ()):
        place = at.below(f"neighbors[{index}]")
        yield from _check_neighbor(neighbor, place, in_vrf=bool(document.vrf))
        name = neighbor.address or neighbor.link or ""
        if name and name in seen:
            yield place.find(f'"{name}" is there already')
        seen.add(name)
    yield from _check_imports(document, at.below("importRoutes"))


def _check_neighbor(neighbor: BGPNeighborConfig, at: Note, *, in_vrf: bool) -> Iterator[Note]:
    if bool(neighbor.address) == bool(neighbor.link):
        yield at.find("needs one of address and link")
    if neighbor.hold_time and neighbor.hold_time.seconds < 0:
        yield at.below("holdTime").find(f'"{neighbor.hold_time}" is negative')
    bfd = neighbor.bfd
    if bfd is None:
        return
    if in_vrf:
        yield at.below("bfd").find("is not for instances in a VRF")
    for key, span in (("transmitInterval", bfd.transmit_interval), ("receiveInterval", bfd.receive_interval)):
        if span and span.seconds < 0:
            yield at.below(f"bfd.{key}").find(f'"{span}" is negative')


def _check_imports(document: BGPInstanceConfig, at: Note) -> Iterator[Note]:
    sources: set[str] = set()
    found: list[tuple[_Network, Note]] = []
    for index, route in enumerate(document.import_routes or ()):
        place = at.below(f"[{index}]")
        source = route.bgp_instance
        yield from check_present(source, place.below("bgpInstance"))
        if source and source == document.name:
            yield place.below("bgpInstance").find("is the instance itself")
        if source and source in sources:
            yield place.below("bgpInstance").find(f'"{source}" is there already')
        sources.add(source)
        yield from check_present(route.prefixes, place.below("prefixes"))
        yield from _check_prefixes(route, place, found)
    yield from _check_overlaps(found)


def _check_prefixes(route: BGPImportRoute, at: Note, found: list[tuple[_Network, Note]]) -> Iterator[Note]:
    for number, prefix in enumerate(route.prefixes):
        place = at.below(f"prefixes[{number}]")
        if not prefix:
            yield place.find("is empty")
            continue
        interface = prefix.interface
        if interface.ip != interface.network.network_address:
            yield place.find(f'"{prefix}" has bits beyond its length', hint=f"write {interface.network}")
        else:
            found.append((interface.network, place))


def _check_overlaps(found: list[tuple[_Network, Note]]) -> Iterator[Note]:
    """In the order of addresses, a network that overlaps any before overlaps the widest of them."""
    widest: _Network | None = None
    for network, place in sorted(
        found, key=lambda one: (one[0].version, int(one[0].network_address), one[0].prefixlen)
    ):
        if widest and widest.version == network.version and network.network_address in widest:
            yield place.find(f"{network} overlaps {widest}")
        else:
            widest = network


CHECKS: dict[str, Check] = {"BGPInstanceConfig": _instance}
