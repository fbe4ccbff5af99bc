"""What other nodes and clients call this node."""

import ipaddress
from collections.abc import Iterable

import trio

from talos.api.definitions import network_pb2 as network
from talos.process.follow import follow
from talos.resource import ids
from talos.resource.state import State
from talos.system.logging import Log

LOOPBACK = ("127.0.0.1", "::1")


class OwnNames:
    """The node's current addresses and its names, kept up to date by :meth:`watch`."""

    def __init__(self) -> None:
        self._addresses: frozenset[str] = frozenset()
        self._names: frozenset[str] = frozenset()

    def is_own(self, target: str) -> bool:
        """Whether a target is this node."""
        try:
            address = ipaddress.ip_address(target)
        except ValueError:
            return target.lower().rstrip(".") in self._names
        return str(address) in LOOPBACK or str(address) in self._addresses

    def set_addresses(self, addresses: Iterable[bytes]) -> None:
        """The node's addresses, in the API's binary form, have changed."""
        self._addresses = frozenset(
            str(ipaddress.ip_address(address[:16])) for address in addresses if address
        )

    def set_hostname(self, hostname: str, domain: str) -> None:
        """The node's name has changed."""
        names = {hostname, f"{hostname}.{domain}" if domain else hostname}
        self._names = frozenset(name.lower() for name in names if name)

    async def watch(self, state: State, log: Log) -> None:
        """Follow the State until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, state, *ids.NODE_ADDRESS_CURRENT, self._apply_addresses, log)
            nursery.start_soon(follow, state, *ids.HOSTNAME_STATUS, self._apply_hostname, log)

    def _apply_addresses(self, spec: network.NodeAddressSpec | None) -> None:
        self.set_addresses([prefix.ip for prefix in spec.addresses] if spec is not None else [])

    def _apply_hostname(self, spec: network.HostnameStatusSpec | None) -> None:
        status = spec or network.HostnameStatusSpec()
        self.set_hostname(status.hostname, status.domainname)
