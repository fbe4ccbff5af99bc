"""What one peer has been sent of an instance's routes, and what it is still to be sent."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from talos.bgpd.messages.attributes import Attributes
from talos.bgpd.messages.prefixes import Address, Network
from talos.bgpd.messages.update import make_announcements, make_end_of_rib, make_withdrawals
from talos.bgpd.rib.exports import ExportContext, find_next_hop, make_export
from talos.bgpd.rib.table import Rib

MAX_BATCH = 500
"""Networks that are turned into messages at once: a peer that reads slowly is never ahead of its turn."""


class Announcer:
    """The routes of a table on their way to a peer."""

    def __init__(self, rib: Rib, context: ExportContext) -> None:
        self.sent: set[Network] = set()
        """What the peer has now."""
        self._rib = rib
        self._context = context
        self._pending = dict.fromkeys(rib.list_exports())
        self._owes_end = True
        self._owes_all = False

    def queue(self, networks: Iterable[Network]) -> None:
        """Send these anew, or withdraw them."""
        self._pending.update(dict.fromkeys(networks))

    def refresh(self) -> None:
        """Send everything once more; many requests at once are one."""
        self._owes_all = True

    def take(self) -> Iterator[bytes]:
        """The bodies of the next messages; none when the peer has everything."""
        if self._owes_all:
            self._owes_all = False
            self.queue(self._rib.list_exports())
        batch = list(islice(self._pending, MAX_BATCH))
        for network in batch:
            del self._pending[network]
        groups: defaultdict[tuple[Attributes, Address, int], list[Network]] = defaultdict(list)
        gone: list[Network] = []
        for network in batch:
            attributes = self._rib.find_export(network)
            export = None if attributes is None else make_export(attributes, self._context)
            next_hop = find_next_hop(network, self._context)
            if export is not None and next_hop is not None:
                groups[export, next_hop, network.version].append(network)
                self.sent.add(network)
            elif network in self.sent:
                self.sent.discard(network)
                gone.append(network)
        yield from make_withdrawals(gone)
        width = 4 if self._context.agreement.has_four_bytes else 2
        for (export, next_hop, _), networks in groups.items():
            yield from make_announcements(networks, export, next_hop, width=width)
        if self._owes_end and not self._pending:
            self._owes_end = False
            for family in sorted(self._context.agreement.families):
                yield make_end_of_rib(family)
