"""NodeAddress: the addresses of the node."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from ipaddress import ip_address

from talos.api.addresses import make_prefix
from talos.api.definitions.network_pb2 import AddressSpecSpec, NodeAddressFilterSpec, NodeAddressSpec
from talos.config.contract import HOST_DNS_FOR_PODS
from talos.networkd.controllers.config_layers import read_devices
from talos.networkd.controllers.kernel_status import ADDRESS_STATUS
from talos.networkd.controllers.link_alias import has_pending_aliases
from talos.networkd.controllers.link_status import is_physical, is_usable
from talos.networkd.ended_leases import INPUTS, EndedLeases, LinkAddress
from talos.networkd.platform import EXTERNAL_LINK
from talos.process.addresses import CONFIG_VERSION
from talos.resource import ids, kinds
from talos.resource.addresses import parse_interface, parse_network
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.resource import EMPTY
from talos.rpc.port.addresses import is_siderolink
from talos.system.net.links import Interface

# Addresses of link scope or narrower (RT_SCOPE_LINK) are no addresses of the node.
_LINK_SCOPE = 253
MAX_ADDRESSES = 256
"""Of a list that has those of the past, too: routers may announce ever new networks, and certificates are for
all of its addresses. Those of now are in it in any case."""
# Every node has these for itself; compared as addresses, which have several texts.
_HOST_DNS = frozenset(map(ip_address, HOST_DNS_FOR_PODS))


class NodeAddressController(Reconciler):
    """Writes four lists, and two more for every NodeAddressFilter.

    ``default`` is the first address there was and never changes; ``current`` are those in
    use, ``routed`` the ones of its own that other nodes can reach, ``accumulative`` all there
    ever were since the boot. Once no lease is left that the machine config ends, and links have an
    address that it gives them, each list is annotated with the config's version.
    """

    name = "network.NodeAddressController"
    inputs = (*INPUTS, Input(kinds.ADDRESS_STATUS), Input(kinds.NODE_ADDRESS_FILTER))
    outputs = (Output(kinds.NODE_ADDRESS),)

    def __init__(self) -> None:
        self._ended = EndedLeases()
        self._aliased: tuple[str, frozenset[str]] = "", frozenset()
        """The version of the config, and the links, for which all aliases were seen in place."""

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Recompute the lists."""
        # Before the rest: of a later config the next round writes.
        config = await runtime.get_or_none(*ids.MACHINE_CONFIG)
        version = "" if config is None else str(config.metadata.version)
        usable = {link.spec.index for link in await runtime.list(kinds.LINK_STATUS) if is_usable(link.spec)}
        present: set[LinkAddress] = set()
        own: list[tuple[str, Interface]] = []
        known: list[Interface] = []
        current: list[Interface] = []
        external: set[Interface] = set()
        for resource in await runtime.list(kinds.ADDRESS_STATUS):
            spec, address = resource.spec, parse_interface(resource.spec.address)
            present.add((spec.link_name, address))
            if int(spec.scope) >= _LINK_SCOPE or not is_node_address(address):
                continue
            known.append(address)
            if resource.metadata.owner == ADDRESS_STATUS:
                own.append((spec.link_name, address))
            if spec.link_name == EXTERNAL_LINK:
                external.add(address)
            elif spec.link_index in usable:
                current.append(address)
        routed = [one for one in sort_addresses(current) if not is_siderolink(one.ip)]
        current = sort_addresses([*current, *external])
        is_settled = await self._is_settled(runtime, version, present)
        notes = {CONFIG_VERSION: version} if is_settled else EMPTY
        async with runtime.track_outputs():
            if own:
                # The alphabetically first link's smallest address.
                first = min(own, key=lambda item: (item[0], _order(item[1])))[1]
                await runtime.modify(*ids.NODE_ADDRESS_DEFAULT, lambda spec: _set_once(spec, first))
            await _write(runtime, ids.NODE_ADDRESS_CURRENT, current, notes)
            await _write(runtime, ids.NODE_ADDRESS_ROUTED, routed, notes)
            await _accumulate(runtime, ids.NODE_ADDRESS_ACCUMULATIVE, known, notes)
            for item in await runtime.list(kinds.NODE_ADDRESS_FILTER):
                for whole, addresses in (
                    (ids.NODE_ADDRESS_CURRENT, current),
                    (ids.NODE_ADDRESS_ROUTED, routed),
                ):
                    part = _filtered(whole, item.id)
                    await _write(runtime, part, apply_filter(item.spec, addresses), notes)
                part = _filtered(ids.NODE_ADDRESS_ACCUMULATIVE, item.id)
                await _accumulate(runtime, part, apply_filter(item.spec, known), notes)

    async def _is_settled(
        self, runtime: ControllerRuntime, version: str, present: AbstractSet[LinkAddress]
    ) -> bool:
        """Whether these addresses are what the config leaves and gives."""
        if await self._ended.find(runtime, present) or not version:
            return False
        links = await runtime.list(kinds.LINK_STATUS)
        names = frozenset(link.id for link in links if is_physical(link.spec))
        if self._aliased != (version, names):
            if await has_pending_aliases(runtime):
                return False
            self._aliased = version, names
        usable = {link.id for link in links if is_usable(link.spec)}
        return has_given_addresses((await read_devices(runtime)).specs.addresses, usable, present)


def has_given_addresses(
    specs: Iterable[AddressSpecSpec], links: AbstractSet[str], present: AbstractSet[LinkAddress]
) -> bool:
    """Whether each of these links has one of the addresses that specs give it, if they give it any.

    A link may have others before: those of a router's advertisement. One is enough: the kernel refuses those
    of IPv6 where that is off.
    """
    given = {(spec.link_name, parse_interface(spec.address)) for spec in specs}
    return {link for link, _ in given} & links <= {link for link, _ in given & present}


def is_node_address(address: Interface) -> bool:
    """Whether another machine can reach the node by it."""
    ip = address.ip
    return not (ip.is_loopback or ip.is_multicast or ip.is_link_local or ip in _HOST_DNS)


def sort_addresses(addresses: Iterable[Interface]) -> list[Interface]:
    """By address, IPv4 first, each once."""
    return sorted(set(addresses), key=_order)


def apply_filter(spec: NodeAddressFilterSpec, addresses: Sequence[Interface]) -> list[Interface]:
    """The addresses a filter lets through: in an included subnet, if any is named, and in no excluded one."""
    include = [network for item in spec.include_subnets if (network := parse_network(item)) is not None]
    exclude = [network for item in spec.exclude_subnets if (network := parse_network(item)) is not None]
    return [
        address
        for address in addresses
        if (not include or any(address.ip in network for network in include))
        and not any(address.ip in network for network in exclude)
    ]


def _order(address: Interface) -> tuple[int, int, int]:
    return address.version, int(address.ip), address.network.prefixlen


type _List = ids.Singleton[NodeAddressSpec]


def _filtered(whole: _List, filter_id: str) -> _List:
    kind, name = whole
    return kind, f"{name}-{filter_id}"


async def _write(
    runtime: ControllerRuntime, resource: _List, addresses: Sequence[Interface], notes: Mapping[str, str]
) -> None:
    spec = NodeAddressSpec(addresses=[make_prefix(address) for address in addresses])
    await runtime.put(*resource, spec, annotations=notes)


async def _accumulate(
    runtime: ControllerRuntime, resource: _List, addresses: Sequence[Interface], notes: Mapping[str, str]
) -> None:
    await runtime.modify(*resource, lambda spec: add_addresses(spec, addresses), annotations=notes)


def add_addresses(spec: NodeAddressSpec, addresses: Sequence[Interface]) -> None:
    """Add what is new; of what is gone as much stays as there is room for."""
    before = {found.ip: found for found in map(parse_interface, spec.addresses)}
    now = {address.ip: before.get(address.ip, address) for address in addresses}
    gone = [address for ip, address in before.items() if ip not in now]
    kept = [*now.values(), *gone[: max(MAX_ADDRESSES - len(now), 0)]]
    del spec.addresses[:]
    spec.addresses.extend(make_prefix(address) for address in sort_addresses(kept))


def _set_once(spec: NodeAddressSpec, address: Interface) -> None:
    if not spec.addresses:
        spec.addresses.append(make_prefix(address))
