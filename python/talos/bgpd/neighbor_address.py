"""The address of a neighbour: its own, or at that of the only router on its link."""

import socket
from collections.abc import Callable, Set

from talos.bgpd.messages.prefixes import Address
from talos.bgpd.settings import NeighborSettings
from talos.bgpd.wire.scoped_address import ScopedAddress
from talos.system.logging import Log
from talos.system.net.neighbors import find_routers, watch_neighbors


async def find_neighbor_address(
    neighbor: NeighborSettings, list_own: Callable[[], Set[Address]], log: Log
) -> ScopedAddress:
    """Its address, waited for without an end; ``list_own`` gives the node's own addresses on its link."""
    if neighbor.address is not None:
        return ScopedAddress(neighbor.address)
    with watch_neighbors() as changes:
        while True:
            if address := _find_router(neighbor.link, list_own(), log):
                return address
            await anext(changes)


def _find_router(link: str, own: Set[Address], log: Log) -> ScopedAddress | None:
    try:
        index = socket.if_nametoindex(link)
        found = [address for address in find_routers(index) if address not in own]
    except OSError:
        return None  # the link is gone, which the instance's settings will show
    if len(found) != 1:
        log.once(f"{len(found)} routers are on link {link}, a neighbour has to be the only one", key=link)
        return None
    return ScopedAddress(found[0], index)
