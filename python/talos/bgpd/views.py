"""An established session as the table of routes needs it: a source of paths, and the context of exports."""

import itertools
from ipaddress import IPv4Address, IPv6Address

from talos.bgpd.messages.open_message import Agreement
from talos.bgpd.rib.exports import ExportContext
from talos.bgpd.rib.paths import Source
from talos.bgpd.settings import InstanceSettings, NeighborSettings
from talos.bgpd.wire.scoped_address import ScopedAddress

_NUMBERS = itertools.count(1)


def make_views(
    neighbor: NeighborSettings,
    settings: InstanceSettings,
    agreement: Agreement,
    *,
    local: ScopedAddress,
    peer: ScopedAddress,
) -> tuple[Source, ExportContext]:
    """Both views of a session between two addresses."""
    link = neighbor.link or settings.find_link(local.address)
    ipv4, ipv6 = find_hops(settings, link)
    address = local.address
    source = Source(
        number=next(_NUMBERS),
        address=peer.address,
        router_id=agreement.router_id,
        is_internal=agreement.is_internal,
        link=link,
        asns=frozenset({neighbor.local_asn, settings.identity.local_asn}),
    )
    context = ExportContext(
        agreement=agreement,
        local_asn=neighbor.local_asn,
        replaces_peer=neighbor.replaces_peer,
        ipv4=address if isinstance(address, IPv4Address) else ipv4,
        ipv6=address if isinstance(address, IPv6Address) else ipv6,
        is_over_ipv6=isinstance(address, IPv6Address),
    )
    return source, context


def find_hops(settings: InstanceSettings, link: str) -> tuple[IPv4Address | None, IPv6Address | None]:
    """The node's addresses on a link, of IPv6 a link-local one where there is no other."""
    ipv4: IPv4Address | None = None
    ipv6: list[IPv6Address] = []
    for name, interface in settings.addresses:
        if name != link:
            continue
        if isinstance(interface.ip, IPv6Address):
            ipv6.append(interface.ip)
        elif ipv4 is None:
            ipv4 = interface.ip
    ipv6.sort(key=lambda address: address.is_link_local)
    return ipv4, ipv6[0] if ipv6 else None
