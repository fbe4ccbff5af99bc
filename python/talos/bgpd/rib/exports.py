"""What a peer is sent of a route: attributes and next hop from this side's view (RFC 4271, section 5)."""

from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

from talos.bgpd.messages import as_paths
from talos.bgpd.messages.attributes import Attributes
from talos.bgpd.messages.open_message import Agreement
from talos.bgpd.messages.prefixes import Address, Family, Network, family_of
from talos.bgpd.rib.paths import LOCAL_PREF

NO_EXPORT, NO_ADVERTISE, NO_EXPORT_SUBCONFED = 0xFFFFFF01, 0xFFFFFF02, 0xFFFFFF03
"""Communities of RFC 1997."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportContext:
    """This side of a session. ``ipv4`` and ``ipv6`` are own addresses on the peer's link, if there are."""

    agreement: Agreement
    local_asn: int
    replaces_peer: bool
    """The peer's number in paths is replaced by the own one."""
    ipv4: IPv4Address | None
    ipv6: IPv6Address | None
    is_over_ipv6: bool


def find_next_hop(network: Network, context: ExportContext) -> Address | None:
    """The own address by which the peer reaches a network; None when it can't be announced."""
    family = family_of(network)
    if family not in context.agreement.families:
        return None
    if family is Family.IPV6:
        return context.ipv6
    if context.is_over_ipv6 and context.agreement.has_extended_next_hop:
        return context.ipv6
    return context.ipv4


def make_export(attributes: Attributes, context: ExportContext) -> Attributes | None:
    """The attributes as the peer gets them; None when a community forbids that it does."""
    communities = attributes.find_communities()
    if NO_ADVERTISE in communities:
        return None
    if context.agreement.is_internal:
        preference = LOCAL_PREF if attributes.local_pref is None else attributes.local_pref
        return replace(attributes, local_pref=preference)
    if communities & {NO_EXPORT, NO_EXPORT_SUBCONFED}:
        return None
    path = attributes.as_path
    if context.replaces_peer:
        path = as_paths.replace(path, context.agreement.peer_asn, context.local_asn)
    # A MED is for the neighbouring system that it came to alone, a preference for the own one.
    return replace(attributes, as_path=as_paths.prepend(path, context.local_asn), med=None, local_pref=None)
