"""KubeSpan's peers: which addresses are theirs, and where they are reached.

Every node has the cluster's secret, so each can announce what it likes. What it announces costs others
neither their own addresses nor their ordinary network.
"""

import ipaddress
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Network
from itertools import islice

from talos.api.addresses import make_host_prefix
from talos.api.common.common_pb2 import NetIPPort, NetIPPrefix
from talos.api.definitions.cluster_pb2 import AffiliateSpec
from talos.api.definitions.kubespan_pb2 import PeerSpecSpec
from talos.clusterd.kubespan.ranges import Claims, Range, make_prefixes, merge, read_ranges
from talos.config.subnet_list import Address, Network
from talos.pki.wireguard import is_key
from talos.rpc.port.addresses import is_kubespan, is_siderolink

VERSIONS = (4, 6)
MIN_BITS = {4: 16, 6: 48}
"""Of the network of a node's pods, by the version of IP: none is larger."""
MAX_PREFIXES = 256
"""Of a peer's networks: addresses of others cut them into parts, and WireGuard's message has its bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """This node: no peer has its key, its addresses and its pods' networks. ``subnet`` is KubeSpan's."""

    node_id: str
    public_key: str
    subnet: IPv6Network
    addresses: frozenset[Address] = frozenset()
    networks: Sequence[NetIPPrefix] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A peer that has proved to have its key a short while ago.

    ``allowed_ips`` are its own until now. ``address`` is where its packets come from, empty while unknown.
    """

    allowed_ips: Sequence[NetIPPrefix] = ()
    address: bytes = b""


@dataclass(slots=True)
class _Candidate:
    """A peer, what it announces and what it gets of that, by the version of IP."""

    affiliate: AffiliateSpec
    address: bytes
    """Where it is seen."""
    held: Mapping[int, Claims]
    """What it has had until now."""
    wanted: dict[int, list[Range]] = field(default_factory=lambda: {version: [] for version in VERSIONS})
    allowed: dict[int, list[Range]] = field(default_factory=lambda: {version: [] for version in VERSIONS})

    @property
    def name(self) -> str:
        return self.affiliate.nodename or self.affiliate.node_id

    def claim(self, claims: Mapping[int, Claims], prefixes: Sequence[NetIPPrefix], limit: int = 0) -> None:
        """Take what is free of its prefixes; none when that has more parts than the limit."""
        for version in VERSIONS:
            wanted = read_ranges(prefixes, version)
            self.wanted[version] += wanted
            free = [part for one in wanted for part in claims[version].find_free(one)]
            if not limit or len([*islice(make_prefixes(free, version), limit + 1)]) <= limit:
                self.allowed[version] += claims[version].take(free)

    def find_held(self, prefixes: Sequence[NetIPPrefix]) -> list[NetIPPrefix]:
        """The parts of these that it has had until now."""
        parts: list[NetIPPrefix] = []
        for version in VERSIONS:
            offered = read_ranges(prefixes, version)
            lost = Claims([part for one in offered for part in self.held[version].find_free(one)])
            parts += make_prefixes([part for one in offered for part in lost.find_free(one)], version)
        return parts

    def make_allowed(self) -> Iterator[NetIPPrefix]:
        for version in VERSIONS:
            yield from make_prefixes(merge(self.allowed[version]), version)

    @property
    def is_short(self) -> bool:
        return any(merge(self.wanted[one]) != merge(self.allowed[one]) for one in VERSIONS)


def make_peers(
    affiliates: Sequence[AffiliateSpec], own: Own, sessions: Mapping[str, Session] | None = None
) -> tuple[Mapping[str, PeerSpecSpec], Sequence[str]]:
    """The peers by their public keys, and what is wrong with those that are left out or lose addresses.

    ``affiliates`` are in the order in which they were first seen: a key that two of them have is the first
    one's. ``sessions`` are by public keys. An address that several have is, in this order, its who sends
    from there, who has had it, and whose id comes first. A node's own address stays with it, whose network
    of pods ever it is in.
    """
    problems: list[str] = []
    peers = _choose(affiliates, own, sessions or {}, problems)
    ordered = sorted(peers.values(), key=lambda one: one.affiliate.node_id)
    claims = {version: Claims() for version in VERSIONS}
    reserved = [*map(make_host_prefix, own.addresses), *own.networks]
    for version in VERSIONS:
        claims[version].take(read_ranges(reserved, version))
    _share_hosts([(peer, [_mesh_prefix(peer.affiliate)]) for peer in ordered], claims)
    # What is left of KubeSpan's own network can't be claimed.
    claims[6].take([(int(own.subnet.network_address), int(own.subnet.broadcast_address))])
    _share_hosts([(peer, _find_hosts(peer.affiliate)) for peer in ordered], claims)
    networks = [
        (peer, _without_excluded(peer.affiliate, _find_networks(peer, own, problems))) for peer in ordered
    ]
    for peer, prefixes in networks:
        peer.claim(claims, peer.find_held(prefixes), MAX_PREFIXES)
    for peer, prefixes in networks:
        peer.claim(claims, prefixes, MAX_PREFIXES)
    specs: dict[str, PeerSpecSpec] = {}
    for key, peer in peers.items():
        allowed = [*peer.make_allowed()]
        if peer.is_short:
            what = "some of its addresses" if allowed else "all of its addresses"
            problems.append(f"peer {peer.name} of KubeSpan overlaps with others, which keep {what}")
        specs[key] = PeerSpecSpec(
            address=peer.affiliate.kube_span.address,
            allowed_ips=allowed,
            endpoints=[one for one in peer.affiliate.kube_span.endpoints if _may_lead(one, own)],
            label=peer.affiliate.nodename,
        )
    return specs, problems


def _share_hosts(
    offers: Iterable[tuple[_Candidate, Sequence[NetIPPrefix]]], claims: Mapping[int, Claims]
) -> None:
    """Give each single address to one of those that announce it."""
    ranked = [
        (peer.address == prefix.ip, bool(peer.find_held([prefix])), peer, prefix)
        for peer, prefixes in offers
        for prefix in prefixes
    ]
    # Sorting keeps the order of what is equal.
    for _, _, peer, prefix in sorted(ranked, key=lambda one: one[:2], reverse=True):
        peer.claim(claims, [prefix])


def _choose(
    affiliates: Sequence[AffiliateSpec], own: Own, sessions: Mapping[str, Session], problems: list[str]
) -> Mapping[str, _Candidate]:
    """Affiliates that can be peers, by their keys."""
    found: dict[str, _Candidate] = {}
    for affiliate in affiliates:
        key, address = affiliate.kube_span.public_key, affiliate.kube_span.address.ip
        if affiliate.node_id == own.node_id or not key:
            continue
        reason = ""
        if not is_key(key) or not any(b64decode(key)) or not address:
            reason = "its key or its address is malformed"
        elif key == own.public_key:
            # WireGuard takes no peer with the link's own key, and reports nothing.
            reason = "it has this node's key, such as a copied disk: reset one of the two"
        elif key in found:
            reason = "another one has its key"
        elif ipaddress.ip_address(address) not in own.subnet:
            reason = f"its address is not in {own.subnet}"
        if reason:
            problems.append(f"{affiliate.nodename or affiliate.node_id} is no peer of KubeSpan: {reason}")
        else:
            session = sessions.get(key, Session())
            held = {version: Claims(read_ranges(session.allowed_ips, version)) for version in VERSIONS}
            found[key] = _Candidate(affiliate, session.address, held)
    return found


def _mesh_prefix(affiliate: AffiliateSpec) -> NetIPPrefix:
    return make_host_prefix(ipaddress.ip_address(affiliate.kube_span.address.ip))


def _find_hosts(affiliate: AffiliateSpec) -> Sequence[NetIPPrefix]:
    """Its addresses one by one, which it does not exclude."""
    hosts = [make_host_prefix(ipaddress.ip_address(one.ip)) for one in affiliate.addresses]
    return [part for one in hosts for part in _without_excluded(affiliate, [one])]


def _without_excluded(affiliate: AffiliateSpec, prefixes: Sequence[NetIPPrefix]) -> list[NetIPPrefix]:
    """What the peer does not exclude; its address in KubeSpan it has in any case."""
    if not affiliate.kube_span.exclude_advertised_networks:
        return list(prefixes)
    kept: list[NetIPPrefix] = []
    for version in VERSIONS:
        excluded = Claims(read_ranges(affiliate.kube_span.exclude_advertised_networks, version))
        offered = read_ranges(prefixes, version)
        kept += make_prefixes([part for one in offered for part in excluded.find_free(one)], version)
    return kept


def _find_networks(peer: _Candidate, own: Own, problems: list[str]) -> Sequence[NetIPPrefix]:
    """The networks of its pods, without those that can't be: they would cut the node off."""
    found: list[NetIPPrefix] = []
    refused: list[Network] = []
    for prefix in peer.affiliate.kube_span.additional_addresses:
        network = ipaddress.ip_network((prefix.ip, prefix.prefix_length), strict=False)
        if network.prefixlen < MIN_BITS[network.version] or any(one in network for one in own.addresses):
            refused.append(network)
        else:
            found.append(prefix)
    if refused:
        problems.append(
            f"peer {peer.name} of KubeSpan announces the network {refused[0]}, which is too large or has "
            "addresses of this node: it is left out"
        )
    return found


def _may_lead(endpoint: NetIPPort, own: Own) -> bool:
    """Whether an endpoint can lead to a peer: not to this node, and not through a tunnel."""
    address = ipaddress.ip_address(endpoint.ip)
    return address not in own.addresses and not is_kubespan(address) and not is_siderolink(address)
