"""Who calls: the roles of a client, and what is passed on of its metadata."""

from talos.api.metadata import IMPERSONATOR, NODE, NODES, PROXY_FROM, READER, ROLE
from talos.apid.routes import values_of
from talos.rpc.proxy.raw import Metadata, Peer


def roles_of(peer: Peer, metadata: Metadata, *, anonymous: bool) -> tuple[str, ...]:
    """The roles of a client, sorted.

    They are in its certificate. Another node's apid may speak for the roles in the metadata.
    ``anonymous`` clients - in maintenance there are no others - are readers.
    """
    if anonymous:
        return (READER,)
    given = values_of(metadata, ROLE)
    if IMPERSONATOR in peer.organizations and given:
        return tuple(sorted(set(given)))
    return tuple(sorted(set(peer.organizations)))


def make_local_metadata(metadata: Metadata, roles: tuple[str, ...]) -> Metadata:
    """What is passed on to this node's router."""
    dropped = {NODE, NODES, ROLE}
    return (*(item for item in metadata if item[0] not in dropped), *((ROLE, role) for role in roles))


def make_peer_metadata(metadata: Metadata, roles: tuple[str, ...], authority: str) -> Metadata:
    """What is passed on to another node; the origin tells it not to pass the call on again."""
    dropped = {PROXY_FROM}
    kept = (item for item in make_local_metadata(metadata, roles) if item[0] not in dropped)
    return (*kept, (PROXY_FROM, authority or "unknown"))
