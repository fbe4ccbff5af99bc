"""Where a neighbour is: at its address, or at that of the only router on its link."""

import socket
from collections.abc import Callable, Set

from talos.bgpd.messages.prefixes import Address
from talos.bgpd.settings import NeighborSettings
from talos.bgpd.wire.places import Place
from talos.system.logging import Log
from talos.system.net.neighbors import find_routers, watch_neighbors


async def find_place(neighbor: NeighborSettings, list_own: Callable[[], Set[Address]], log: Log) -> Place:
    """Its place, waited for as long as it takes; ``list_own`` gives the node's own addresses on its link."""
    if neighbor.address is not None:
        return Place(neighbor.address)
    with watch_neighbors() as changes:
        while True:
            if place := _find_router(neighbor.link, list_own(), log):
                return place
            await anext(changes)


def _find_router(link: str, own: Set[Address], log: Log) -> Place | None:
    try:
        index = socket.if_nametoindex(link)
        found = [address for address in find_routers(index) if address not in own]
    except OSError:
        return None  # the link is gone, which the instance's settings will show
    if len(found) != 1:
        log.once(f"{len(found)} routers are on link {link}, a neighbour has to be the only one", key=link)
        return None
    return Place(found[0], index)
