"""Checks of the networks of pods and services, and of lists that choose among addresses."""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from talos.config.check.note import Note
from talos.config.contract import DNS_INDEX
from talos.config.subnet_list import parse_entry

NODE_MASKS = (24, 64)
"""Prefix lengths of a node's share of the pods' networks, IPv4 and IPv6, unless others are given."""
UNKNOWN_MASKS = (0, 0)
"""Of a worker's main document: arguments of the control plane may give others."""
_WIDEST_NODE_BITS = 16  # between a pod subnet and a node's share of it
_WIDEST_SERVICE_BITS = 20  # host bits of a service subnet, kube-apiserver's limit


def check_subnet_list(texts: Iterable[str] | None, at: Note) -> Iterator[Note]:
    """Those that choose among addresses; ``!`` before one is an exception."""
    for index, text in enumerate(texts or ()):
        yield from check_subnet(text, at.below(f"[{index}]"))


def check_subnet(text: str, at: Note) -> Iterator[Note]:
    """One of such a list: what :func:`parse_entry` refuses."""
    try:
        parse_entry(text)
    except ValueError:
        yield at.find(f'"{text}" is no subnet', hint="such as 10.0.0.0/8, or !10.1.0.0/16 to leave it out")


def check_subnets(
    subnets: Sequence[str], at: Note, *, masks: tuple[int, int] | None = None
) -> Iterator[Note]:
    """Those of pods with the ``masks`` of nodes' shares, those of services without."""
    if not 1 <= len(subnets) <= 2:
        yield at.find("is empty" if not subnets else "are too many", hint="one, or one of each family")
        return
    families: list[int] = []
    for index, subnet in enumerate(subnets):
        place = at.below(f"[{index}]")
        try:
            interface = ip_interface(subnet)
        except ValueError:
            text = f'"{subnet}" is no prefix' if subnet else "is empty"
            yield place.find(text, hint="such as 10.244.0.0/16")
            continue
        families.append(interface.version)
        if interface.ip != interface.network.network_address:
            yield place.find(f'"{subnet}" has bits beyond its length', hint=f"write {interface.network}")
        elif masks is None:
            yield from _check_services(interface, place)
        else:
            yield from _check_node_share(interface, masks[interface.version == 6], place)
    if len(families) > 1 and len(set(families)) == 1:
        yield at.find("are both of one family", hint="one of each")


def _check_services(subnet: IPv4Interface | IPv6Interface, at: Note) -> Iterator[Note]:
    network = subnet.network
    if network.max_prefixlen - network.prefixlen > _WIDEST_SERVICE_BITS:
        hint = f"at least /{network.max_prefixlen - _WIDEST_SERVICE_BITS}"
        yield at.find(f'"{subnet}" is too large', hint=hint)
    elif network.num_addresses <= DNS_INDEX:
        length = network.max_prefixlen - DNS_INDEX.bit_length()
        text = f'"{subnet}" is too small: the cluster\'s DNS server has its address {DNS_INDEX}'
        yield at.find(text, hint=f"/{length} at most")


def _check_node_share(subnet: IPv4Interface | IPv6Interface, mask: int, at: Note) -> Iterator[Note]:
    length = subnet.network.prefixlen
    if not mask:
        return
    if length > mask:
        yield at.find(f'"{subnet}" is smaller than a node\'s share, /{mask}')
    elif mask - length > _WIDEST_NODE_BITS:
        yield at.find(f'"{subnet}" is too large for shares of /{mask}', hint=f"/{mask - 16} at least")
