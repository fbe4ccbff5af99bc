"""KubeSpan's peers: which addresses are theirs, where they are reached, what the node announces of itself."""

import ipaddress
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address

from talos.api.addresses import make_host_prefix, make_prefix, parse_ip_port
from talos.api.common.common_pb2 import NetIP, NetIPPort, NetIPPrefix
from talos.api.definitions.cluster_pb2 import AffiliateSpec, KubeSpanAffiliateSpec
from talos.api.definitions.kubespan_pb2 import ConfigSpec, IdentitySpec, PeerSpecSpec
from talos.clusterd.discovery.payload import MAX_ADDRESSES
from talos.config.contract import KUBE_SPAN_PORT
from talos.config.effective import cluster as effective
from talos.config.effective.kubespan import kubespan, kubespan_extra_endpoints
from talos.config.model import Config
from talos.config.subnet_list import Address, parse_entry
from talos.pki.wireguard import is_key
from talos.rpc.port.addresses import is_siderolink

type Range = tuple[int, int]
"""First and last address, as numbers."""


def make_config(config: Config) -> ConfigSpec:
    """The settings of the node's own part."""
    settings = kubespan(config)
    # The main document's are not checked while KubeSpan is off.
    excluded = settings.exclude_advertised_networks if settings.enabled else ()
    return ConfigSpec(
        enabled=settings.enabled,
        cluster_id=effective.cluster_id(config),
        shared_secret=effective.cluster_secret(config),
        force_routing=settings.force_routing,
        advertise_kubernetes_networks=settings.advertise_kubernetes_networks,
        mtu=settings.mtu,
        endpoint_filters=settings.endpoint_filters,
        harvest_extra_endpoints=settings.harvest_extra_endpoints,
        extra_endpoints=[parse_ip_port(text) for text in kubespan_extra_endpoints(config)],
        exclude_advertised_networks=[
            make_prefix(ipaddress.ip_network(text, strict=False)) for text in excluded
        ],
    )


def make_affiliate(
    config: ConfigSpec,
    identity: IdentitySpec,
    addresses: Iterable[Address],
    public: Iterable[Address],
    pods: Iterable[NetIPPrefix],
) -> KubeSpanAffiliateSpec:
    """What the node announces: ``addresses`` are its own, ``public`` those that others see it under."""
    candidates = dict.fromkeys([*addresses, *public])
    own = ipaddress.ip_address(identity.address.ip)
    usable = [one for one in candidates if one != own and not is_siderolink(one)]
    endpoints = [
        NetIPPort(ip=one.packed, port=KUBE_SPAN_PORT)
        for one in filter_addresses(config.endpoint_filters, usable)
    ]
    endpoints += [one for one in config.extra_endpoints if one not in endpoints]
    return KubeSpanAffiliateSpec(
        public_key=identity.public_key,
        address=NetIP(ip=identity.address.ip),
        additional_addresses=pods if config.advertise_kubernetes_networks else (),
        endpoints=endpoints[:MAX_ADDRESSES],
        exclude_advertised_networks=config.exclude_advertised_networks,
    )


def filter_addresses(filters: Sequence[str], addresses: Sequence[Address]) -> Sequence[Address]:
    """The addresses that the filters choose, from left to right; all of them without filters.

    A prefix adds what is in it, one with ``!`` removes what was added so far: exceptions alone choose none.
    """
    if not filters:
        return addresses
    chosen: dict[Address, None] = {}
    for text in filters:
        network, is_exception = parse_entry(text)
        for address in addresses:
            if address not in network:
                continue
            if is_exception:
                chosen.pop(address, None)
            else:
                chosen[address] = None
    return [*chosen]


@dataclass(slots=True)
class _Claims:
    """Addresses of one version of IP that peers have: ranges in order, apart from each other."""

    ranges: list[Range] = field(default_factory=list[Range])

    def find_free(self, wanted: Range) -> Iterator[Range]:
        """The parts of a range that no peer has."""
        low, high = wanted
        for taken_low, taken_high in self._overlaps(wanted):
            if taken_low > low:
                yield low, taken_low - 1
            low = taken_high + 1
        if low <= high:
            yield low, high

    def add(self, free: Range) -> None:
        """Claim a range that is free."""
        self.ranges.insert(bisect_left(self.ranges, free), free)

    def _overlaps(self, wanted: Range) -> Iterator[Range]:
        low, high = wanted
        place = max(bisect_left(self.ranges, (low, low)) - 1, 0)
        for taken in self.ranges[place:]:
            if taken[0] > high:
                return
            if taken[1] >= low:
                yield taken


def make_peers(
    affiliates: Sequence[AffiliateSpec], own_id: str
) -> tuple[Mapping[str, PeerSpecSpec], Sequence[str]]:
    """The peers by their public keys, and what is wrong with those that are left out or lose addresses.

    ``affiliates`` are in order of their ids: an address that two of them have is the first one's.
    """
    peers: dict[str, PeerSpecSpec] = {}
    problems: list[str] = []
    claims = {4: _Claims(), 6: _Claims()}
    for affiliate in affiliates:
        key, name = affiliate.kube_span.public_key, affiliate.nodename or affiliate.node_id
        if affiliate.node_id == own_id or not key:
            continue
        address = affiliate.kube_span.address
        if not is_key(key) or not address.ip or key in peers:
            reason = "another one has its key" if key in peers else "its key or its address is malformed"
            problems.append(f"{name} is no peer of KubeSpan: {reason}")
            continue
        allowed: list[NetIPPrefix] = []
        is_short = False
        for version, ranges in _find_addresses(affiliate).items():
            left = [part for one in ranges for part in claims[version].find_free(one)]
            is_short |= left != ranges
            for part in left:
                claims[version].add(part)
            allowed += _make_prefixes(left, version)
        if is_short:
            what = "some of its addresses" if allowed else "all of its addresses"
            problems.append(f"peer {name} of KubeSpan overlaps with others, which keep {what}")
        peers[key] = PeerSpecSpec(
            address=address,
            allowed_ips=allowed,
            endpoints=affiliate.kube_span.endpoints,
            label=affiliate.nodename,
        )
    return peers, problems


def _find_addresses(affiliate: AffiliateSpec) -> Mapping[int, list[Range]]:
    """What is the peer's: its addresses without what it excludes, and in any case that in KubeSpan."""
    mine = affiliate.kube_span
    hosts = [make_host_prefix(ipaddress.ip_address(one.ip)) for one in affiliate.addresses]
    own = make_host_prefix(ipaddress.ip_address(mine.address.ip))
    found: dict[int, list[Range]] = {}
    for version in (4, 6):
        excluded = _Claims(_merge(_read_ranges(mine.exclude_advertised_networks, version)))
        offered = _merge(_read_ranges([*hosts, *mine.additional_addresses], version))
        kept = [part for one in offered for part in excluded.find_free(one)]
        found[version] = _merge([*kept, *_read_ranges([own], version)])
    return found


def _read_ranges(prefixes: Iterable[NetIPPrefix], version: int) -> Iterator[Range]:
    for prefix in prefixes:
        network = ipaddress.ip_network((prefix.ip, prefix.prefix_length), strict=False)
        if network.version == version:
            yield int(network.network_address), int(network.broadcast_address)


def _merge(ranges: Iterable[Range]) -> list[Range]:
    """In order, those that touch as one."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged


def _make_prefixes(ranges: Iterable[Range], version: int) -> Iterator[NetIPPrefix]:
    for low, high in ranges:
        if version == 4:
            networks = ipaddress.summarize_address_range(IPv4Address(low), IPv4Address(high))
        else:
            networks = ipaddress.summarize_address_range(IPv6Address(low), IPv6Address(high))
        yield from map(make_prefix, networks)
