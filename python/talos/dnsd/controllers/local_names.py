"""The names that the host's resolver answers by itself: static hosts, and members of the cluster."""

from ipaddress import IPv4Address, IPv6Address, ip_address

from talos.dnsd.message import encode_name
from talos.dnsd.resolver import Resolver
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler

type _Names = dict[bytes, list[IPv4Address | IPv6Address]]


class LocalNamesController(Reconciler):
    """StaticHost, Member → the resolver's table. Members are in it when the config has that enabled."""

    name = "network.DNSLocalNamesController"
    inputs = (Input(kinds.STATIC_HOST), Input(kinds.MEMBER), Input(*ids.HOST_DNS_CONFIG))

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Replace the table. A static host is preferred to a member of the same name."""
        names: _Names = {}
        for host in await runtime.list(kinds.STATIC_HOST):
            _add(names, host.id, [ip_address(item.ip) for item in host.spec.addresses])
        static = set(names)
        config = await runtime.get_or_none(*ids.HOST_DNS_CONFIG)
        if config is not None and config.spec.resolve_member_names:
            members: _Names = {}
            for member in await runtime.list(kinds.MEMBER):
                addresses = [ip_address(item.ip) for item in member.spec.addresses]
                for name in {member.id, member.spec.hostname}:
                    _add(members, name, addresses)
            names |= {name: found for name, found in members.items() if name not in static}
        self._resolver.local = names


def _add(names: _Names, text: str, addresses: list[IPv4Address | IPv6Address]) -> None:
    try:
        name = encode_name(text)
    except ValueError:
        # A name that DNS can't carry is in /etc/hosts alone.
        return
    known = names.setdefault(name, [])
    known += [address for address in addresses if address not in known]
