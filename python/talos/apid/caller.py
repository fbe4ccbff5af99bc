"""The roles of a client, and what is passed on of its metadata."""

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from talos.api.metadata import ADMIN, CALLER, IMPERSONATOR, NODE, NODES, PROXY_FROM, REACHED, READER, ROLE
from talos.apid.routes import values_of
from talos.config.contract import SIDEROLINK_LINK, SIDEROLINK_TUNNEL_LINK
from talos.rpc.port.addresses import is_siderolink, network_of
from talos.rpc.protocol import Metadata, Peer
from talos.system.net.reach import is_on_link

AUTHORIZATION = "authorization"
"""A password of the client's for what lies between it and the nodes, none of which has a use for it."""
_ROLE_NAME = re.compile(r"os:[a-z:]{1,64}")


def roles_of(peer: Peer, metadata: Metadata, *, anonymous: bool) -> tuple[str, ...]:
    """The roles of a client, sorted.

    They are in its certificate; another node's apid may pass its caller's roles in the metadata.
    Other organizations and values are left out, since metadata can't hold every text.
    ``anonymous`` clients - in maintenance there are no others - are readers, but a manager at the other
    end of the machine's SideroLink is the administrator.
    """
    if anonymous:
        return (ADMIN,) if is_manager(peer.host, peer.reached) else (READER,)
    given = values_of(metadata, ROLE)
    if IMPERSONATOR in peer.organizations and given:
        return _only_roles(given)
    return _only_roles(peer.organizations)


def is_manager(there: str, here: str) -> bool:
    """Whether the connection is one of SideroLink's: by its addresses, and by the link, which makes it so.

    A neighbour can announce such a network on any other link.
    """
    try:
        is_both = is_siderolink(ip_address(there)) and is_siderolink(ip_address(here))
    except ValueError:
        return False
    if not is_both or network_of(there) != network_of(here):
        return False
    links = (SIDEROLINK_LINK, SIDEROLINK_TUNNEL_LINK)
    return any(is_on_link(link, here=here, there=there) for link in links)


def _only_roles(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in names if _ROLE_NAME.fullmatch(name)}))


def make_local_metadata(metadata: Metadata, roles: tuple[str, ...], peer: Peer) -> Metadata:
    """What is passed on to this node's router."""
    connection = ((CALLER, peer.host), (REACHED, peer.reached))
    return (*_keep(metadata), *((ROLE, role) for role in roles), *(item for item in connection if item[1]))


def _keep(metadata: Metadata) -> Iterator[tuple[str, str | bytes]]:
    dropped = {NODE, NODES, ROLE, CALLER, REACHED, AUTHORIZATION}
    return (item for item in metadata if item[0] not in dropped)


def make_peer_metadata(metadata: Metadata, roles: tuple[str, ...], authority: str) -> Metadata:
    """What is passed on to another node; with the origin in it the call is not passed on again."""
    kept = (item for item in _keep(metadata) if item[0] != PROXY_FROM)
    return (*kept, *((ROLE, role) for role in roles), (PROXY_FROM, authority or "unknown"))
