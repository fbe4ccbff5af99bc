"""One instance at work: its neighbours, its listeners, the routes that it installs."""

import socket
from collections.abc import Callable, Mapping

import trio

from talos.api.addresses import make_ip
from talos.api.definitions.network_pb2 import BGPPeerStatusSpec, RouteSpecSpec
from talos.bgpd.bfd.port import BfdPort
from talos.bgpd.messages.attributes import Attributes
from talos.bgpd.messages.notification import Cease, Code, Notification
from talos.bgpd.messages.prefixes import Network
from talos.bgpd.neighbor import Neighbor
from talos.bgpd.rib.routes import make_id, make_route
from talos.bgpd.rib.table import Rib
from talos.bgpd.settings import InstanceSettings, NeighborSettings
from talos.bgpd.wire.streams import PORT, find_peer_address, open_listener
from talos.system.logging import Log

BIND_RETRY = 30.0
"""Seconds before a port that is in use is tried again."""
ACCEPT_RETRY = 1.0
MAX_ROUTES = 4000
"""Routes that are installed at once."""
DECONFIGURED = Notification(code=Code.CEASE, subcode=Cease.DECONFIGURED)
CHANGED = Notification(code=Code.CEASE, subcode=Cease.CONFIGURATION_CHANGE)


class Speaker:
    """A speaker with one identity; ``changed`` is called when routes or states are others than before."""

    def __init__(
        self, settings: InstanceSettings, bfd: BfdPort, changed: Callable[[], None], log: Log
    ) -> None:
        self.settings = settings
        self.rib = Rib()
        self.notify = changed
        self.routes: dict[str, RouteSpecSpec] = {}
        """By their ids."""
        self.scope = trio.CancelScope()
        self._bfd = bfd
        self._log = log
        self._neighbors: dict[NeighborSettings, tuple[Neighbor, trio.CancelScope]] = {}
        self._ids: dict[Network, str] = {}
        self._waiting: set[Network] = set()
        """Networks whose routes are more than ``MAX_ROUTES``."""
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Work until ``scope`` is cancelled."""
        with self.scope:
            async with trio.open_nursery() as self._nursery:
                for family in (socket.AF_INET, socket.AF_INET6):
                    self._nursery.start_soon(self._listen, family)
                self.configure(self.settings)
                await trio.sleep_forever()

    def configure(self, settings: InstanceSettings) -> None:
        """Take other settings with the same identity."""
        if settings.addresses != self.settings.addresses:
            self.rib.changed |= set(self.rib.list_learned())  # next hops may be on other links
        self.settings = settings
        addresses = frozenset(interface.ip for _, interface in settings.addresses)
        self._announce(self.rib.set_own(settings.networks, addresses))
        wanted = dict.fromkeys(settings.neighbors)
        kept = {(neighbor.address, neighbor.link) for neighbor in wanted}
        for known in self._neighbors.keys() - wanted.keys():
            neighbor, scope = self._neighbors.pop(known)
            neighbor.last_notification = CHANGED if (known.address, known.link) in kept else DECONFIGURED
            scope.cancel()
        if self._nursery is None:
            return
        for added in wanted:
            if added not in self._neighbors:
                neighbor, scope = Neighbor(added, self, self._bfd, self._log), trio.CancelScope()
                self._neighbors[added] = neighbor, scope
                self._nursery.start_soon(_run_within, scope, neighbor)

    def import_routes(self, routes: Mapping[Network, Attributes]) -> None:
        """Announce these of other instances."""
        self._announce(self.rib.set_imported(routes))

    def _announce(self, networks: set[Network]) -> None:
        if networks:
            for neighbor, _ in self._neighbors.values():
                neighbor.announce(networks)

    def update_routes(self) -> None:
        """Bring ``routes`` up to date with the table."""
        changed, self.rib.changed = self.rib.changed | self._waiting, set()
        self._waiting.clear()
        for network in changed:
            self.routes.pop(self._ids.pop(network, ""), None)
        if not self.settings.has_routes:
            return
        for network in sorted(changed, key=lambda item: (item.version, item)):
            paths = self.rib.find_installed(network)
            spec = make_route(network, paths, self.settings) if paths else None
            if spec is None:
                continue
            if len(self.routes) >= MAX_ROUTES:
                self._waiting.add(network)
                continue
            route_id = make_id(self.settings.name, spec)
            self.routes[route_id], self._ids[network] = spec, route_id
        if self._waiting:
            self._log.once(
                f"more than {MAX_ROUTES} routes are learned, the others are not installed", key="routes"
            )

    def make_statuses(self) -> dict[str, BGPPeerStatusSpec]:
        """The status of each neighbour that is found, by its id."""
        return {
            f"{self.settings.name}/{neighbor.label}": self._make_status(neighbor)
            for neighbor, _ in self._neighbors.values()
            if neighbor.peer is not None
        }

    def _make_status(self, neighbor: Neighbor) -> BGPPeerStatusSpec:
        best = neighbor.best
        received, accepted = self.rib.count(best.source) if best and best.source else (0, 0)
        agreement = best.session.agreement if best else None
        status = BGPPeerStatusSpec(
            instance=self.settings.name,
            peer=neighbor.label,
            local_asn=neighbor.settings.local_asn,
            peer_asn=agreement.peer_asn if agreement else neighbor.settings.peer_asn,
            received=received,
            accepted=accepted,
            advertised=len(best.announcer.sent) if best and best.announcer else 0,
            bfd_state=neighbor.bfd_state,
        )
        setattr(status, "state", int(neighbor.state))  # noqa: B010 - the values are the enum's
        if agreement is not None:
            status.router_id.CopyFrom(make_ip(agreement.router_id))
        if neighbor.since is not None:
            status.since.FromNanoseconds(int(neighbor.since * 1e9))
        return status

    async def _listen(self, family: socket.AddressFamily) -> None:
        while True:
            try:
                listener = await open_listener(family, self.settings.identity.vrf)
            except OSError as error:
                self._log.once(f"port {PORT} can't be opened: {error.strerror}", key=f"listen {family}")
                await trio.sleep(BIND_RETRY)
                continue
            async with listener:
                while True:
                    await self._accept(listener)

    async def _accept(self, listener: trio.SocketListener) -> None:
        try:
            stream = await listener.accept()
        except OSError as error:  # such as of too many open files
            self._log.once(f"a connection is not accepted: {error.strerror}")
            await trio.sleep(ACCEPT_RETRY)
            return
        peer = find_peer_address(stream)
        neighbors = [neighbor for neighbor, _ in self._neighbors.values() if neighbor.peer == peer]
        if peer is None or not any(neighbor.accept(stream) for neighbor in neighbors):
            await trio.aclose_forcefully(stream)


async def _run_within(scope: trio.CancelScope, neighbor: Neighbor) -> None:
    with scope:
        await neighbor.run()
