"""Routes that one instance takes from others."""

from collections.abc import Mapping, Sequence

from talos.bgpd.messages.attributes import Attributes
from talos.bgpd.messages.prefixes import Network
from talos.bgpd.rib.table import Rib
from talos.bgpd.settings import ImportSettings


def find_imports(imports: Sequence[ImportSettings], ribs: Mapping[str, Rib]) -> dict[Network, Attributes]:
    """The attributes of the best paths that peers of the sources have announced, within the selectors.

    What a source has imported itself is not among them: it comes from no peer.
    """
    found: dict[Network, Attributes] = {}
    for item in imports:
        rib = ribs.get(item.instance)
        for network in rib.list_learned() if rib else ():
            is_selected = any(contains(selector, network) for selector in item.networks)
            if rib and is_selected and (paths := rib.find_installed(network)):
                found[network] = paths[0].attributes
    return found


def contains(selector: Network, network: Network) -> bool:
    """Whether a network is within a selector."""
    return (
        selector.version == network.version
        and selector.prefixlen <= network.prefixlen
        and network.network_address in selector
    )
