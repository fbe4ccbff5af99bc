"""What a node is called, as its serving certificate may have it: what no other node is called.

A node publishes its own addresses, and writes them into its object in Kubernetes: a node that was taken over
claims what it likes. So an address that another one claims too, or that is the cluster's, is no node's.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from talos.api.definitions.cluster_pb2 import AffiliateSpec

type Network = IPv4Network | IPv6Network

OBJECT = "object "
"""How claims by objects of Kubernetes begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNames:
    """What a node is called. ``reasons`` has, for others that it claims, why it is not called so."""

    dns_names: frozenset[str]
    ips: frozenset[str]
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedNames:
    """What is the cluster's and no node's: the API's names and addresses, virtual ones, networks of pods."""

    dns_names: frozenset[str]
    ips: frozenset[str]
    networks: Sequence[Network]

    def find_reason(self, address: str) -> str:
        """Why an address can be no node's; empty when it can."""
        ip = ip_address(address)
        if ip.is_loopback or ip.is_unspecified or ip.is_multicast:
            return "it is no address of one node"
        if str(ip) in self.ips:
            return "it is the cluster's"
        network = next((str(one) for one in self.networks if ip in one), "")
        return f"it is in {network}, which is of pods or services" if network else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressClaim:
    """The addresses that are claimed for a node. ``by`` is who claims: one member or object, one claim."""

    by: str
    node: str
    ips: frozenset[str]


def make_reserved(dns_names: Iterable[str], ips: Iterable[str], networks: Iterable[str]) -> ReservedNames:
    """From names and addresses as configs have them; what is no address is left out."""
    return ReservedNames(
        dns_names=frozenset(name.lower() for name in dns_names),
        ips=frozenset(map(_normalize, filter(is_ip, ips))),
        networks=[ip_network(one, strict=False) for one in networks],
    )


def find_names(node: str, claims: Collection[AddressClaim], reserved: ReservedNames) -> NodeNames:
    """What a node may be called by the first kind of claims that there is for it: members, else objects.

    Two members of one name are two nodes, of which one pretends: then it has no names at all.
    """
    own = [claim for claim in claims if claim.node == node]
    if not own or len({claim.by for claim in own if not claim.by.startswith(OBJECT)}) > 1:
        return NodeNames(dns_names=frozenset(), ips=frozenset())
    chosen = next((claim for claim in own if not claim.by.startswith(OBJECT)), own[0])
    reasons: dict[str, str] = {}
    for address in chosen.ips:
        others = sorted(
            claim.node or claim.by for claim in claims if claim.node != node and address in claim.ips
        )
        reason = reserved.find_reason(address)
        if others:
            reason = f"{', '.join(dict.fromkeys(others))} has it, too"
        if reason:
            reasons[address] = reason
    names = frozenset({node})
    if node.lower() in reserved.dns_names:
        names, reasons[node] = frozenset[str](), "it is the API server's"
    return NodeNames(dns_names=names, ips=chosen.ips - reasons.keys(), reasons=reasons)


def read_members(affiliates: Iterable[AffiliateSpec]) -> list[AddressClaim]:
    """The claims of what discovery has: also of those that lost a name to another one."""
    return [
        AddressClaim(
            by=one.node_id,
            node=one.nodename,
            ips=frozenset(str(ip_address(address.ip[:16])) for address in one.addresses),
        )
        for one in affiliates
    ]


def read_nodes(nodes: Iterable[Mapping[str, Any]]) -> list[AddressClaim]:
    """The claims of nodes' objects in Kubernetes."""
    found: list[AddressClaim] = []
    for node in nodes:
        name = str(node["metadata"]["name"])
        addresses: Iterable[Mapping[str, str]] = node.get("status", {}).get("addresses") or ()
        ips = frozenset(_normalize(one["address"]) for one in addresses if is_ip(one["address"]))
        found.append(AddressClaim(by=f"{OBJECT}{name}", node=name, ips=ips))
    return found


def is_ip(text: str) -> bool:
    """Whether a text is an address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _normalize(text: str) -> str:
    return str(ip_address(text))
