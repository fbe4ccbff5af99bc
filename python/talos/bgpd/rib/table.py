"""The routes of one instance: own ones, imported ones, and those that peers have announced."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from talos.bgpd.messages.as_paths import contains
from talos.bgpd.messages.attributes import Attributes
from talos.bgpd.messages.prefixes import Address, Network
from talos.bgpd.messages.update import Update
from talos.bgpd.rib.paths import Path, Source, select

OWN = Attributes()
"""Those of a network of the node: origin IGP, an empty path."""
MAX_PREFIXES = 4000
"""Prefixes that a peer may announce. Each installed route takes about 5 kB in the State and its copies."""
MAX_BYTES = 8 << 20
"""What the attributes of a peer's paths may take: 2 kB each, with a path of forty numbers. All that an UPDATE
has room for, for each prefix, would be 45 MB; all peers share 128 MiB."""
_NUMBER_BYTES, _ATTRIBUTE_BYTES = 36, 128
"""Of an AS number and, without its value, of an attribute that is passed on, in this process."""


class PrefixLimitError(Exception):
    """A peer has announced more than ``MAX_PREFIXES``, or paths of more than ``MAX_BYTES``."""


@dataclass(slots=True)
class _Received:
    """What one peer has announced: paths, and the networks of those that can't be used."""

    source: Source
    accepted: dict[Network, Path] = field(default_factory=dict[Network, Path])
    refused: set[Network] = field(default_factory=set[Network])
    size: int = 0
    """Bytes of the accepted paths' attributes, as if no two shared any."""

    def accept(self, network: Network, path: Path) -> None:
        self.drop(network)
        self.accepted[network] = path
        self.size += _measure(path.attributes)

    def drop(self, network: Network) -> bool:
        """Whether there was a path."""
        self.refused.discard(network)
        path = self.accepted.pop(network, None)
        if path is not None:
            self.size -= _measure(path.attributes)
        return path is not None


def _measure(attributes: Attributes) -> int:
    numbers = sum(len(segment.numbers) for segment in attributes.as_path)
    values = sum(_ATTRIBUTE_BYTES + len(item.value) for item in attributes.unrecognized)
    return _NUMBER_BYTES * numbers + values


class Rib:
    """The table of routes. ``changed`` are networks whose best path may be another than before."""

    def __init__(self) -> None:
        self.own: frozenset[Network] = frozenset()
        self.imported: Mapping[Network, Attributes] = {}
        self.changed: set[Network] = set()
        self._own_addresses: frozenset[Address] = frozenset()
        self._received: dict[Source, _Received] = {}
        self._learned: dict[Network, dict[Source, Path]] = {}

    def set_own(self, networks: frozenset[Network], addresses: frozenset[Address]) -> set[Network]:
        """Originate these; the node has these addresses. Returns what is announced in another way now."""
        touched = set(self.own ^ networks)
        self.own, self._own_addresses = networks, addresses
        self.changed |= touched
        return touched

    def set_imported(self, routes: Mapping[Network, Attributes]) -> set[Network]:
        """Take these from other instances. Returns what is announced in another way now."""
        old, self.imported = self.imported, routes
        touched = {
            network for network in old.keys() | routes.keys() if old.get(network) != routes.get(network)
        }
        self.changed |= touched
        return touched

    def find_export(self, network: Network) -> Attributes | None:
        """What is announced to peers: own networks before imported ones; never what a peer has announced."""
        return OWN if network in self.own else self.imported.get(network)

    def list_exports(self) -> Iterable[Network]:
        """The networks that are announced to peers."""
        return self.own | self.imported.keys()

    def add_source(self, source: Source) -> None:
        """A session is established."""
        self._received[source] = _Received(source)

    def remove_source(self, source: Source) -> None:
        """A session is over: all that it has brought goes."""
        received = self._received.pop(source, None)
        for network in received.accepted if received else ():
            self._forget(network, source)

    def count(self, source: Source) -> tuple[int, int]:
        """How many prefixes a session has brought, and how many of them are accepted."""
        received = self._received[source]
        return len(received.accepted) + len(received.refused), len(received.accepted)

    def apply(self, source: Source, update: Update) -> None:
        """Take what a message changes; PrefixLimitError."""
        received = self._received[source]
        for network in update.withdrawn:
            self._withdraw(received, network)
        for next_hop, networks in update.announced:
            assert update.attributes is not None
            path = Path(source=source, next_hop=next_hop, attributes=update.attributes)
            is_usable = self._is_usable(path)
            for network in networks:
                if is_usable:
                    received.accept(network, path)
                    self._learned.setdefault(network, {})[source] = path
                    self.changed.add(network)
                else:
                    self._withdraw(received, network)
                    received.refused.add(network)
        if len(received.accepted) + len(received.refused) > MAX_PREFIXES:
            raise PrefixLimitError(f"more than {MAX_PREFIXES} prefixes")
        if received.size > MAX_BYTES:
            raise PrefixLimitError(f"paths of more than {MAX_BYTES >> 20} MiB")

    def _is_usable(self, path: Path) -> bool:
        """No loop, and a next hop to which packets can go."""
        if contains(path.attributes.as_path, *path.source.asns):
            return False
        address = path.next_hop.address
        if address in self._own_addresses or address.is_multicast or address.is_loopback:
            return False
        return not address.is_unspecified or path.next_hop.link_local is not None

    def _withdraw(self, received: _Received, network: Network) -> None:
        if received.drop(network):
            self._forget(network, received.source)

    def _forget(self, network: Network, source: Source) -> None:
        paths = self._learned[network]
        del paths[source]
        if not paths:
            del self._learned[network]
        self.changed.add(network)

    def find_learned(self, network: Network) -> Sequence[Path]:
        """The best path that a peer has announced, followed by those that are as good."""
        return select(self._learned.get(network, {}).values())

    def find_installed(self, network: Network) -> Sequence[Path]:
        """The same, but none for an own or an imported network."""
        return () if network in self.own or network in self.imported else self.find_learned(network)

    def list_learned(self) -> Iterable[Network]:
        """Every network that a peer has announced."""
        return self._learned.keys()
