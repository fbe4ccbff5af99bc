"""Whether a config closes the way by which it came: to the node's address, or through its firewall."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface, ip_network

from talos.config.documents.network.bond import BondConfig
from talos.config.documents.network.bridge import BridgeConfig
from talos.config.documents.network.dhcp4 import DHCPv4Config
from talos.config.documents.network.dummy_link import DummyLinkConfig
from talos.config.documents.network.link import LinkConfig
from talos.config.documents.network.network_default_action import NetworkDefaultActionConfig
from talos.config.documents.network.network_rule import NetworkRuleConfig
from talos.config.documents.network.vlan import VLANConfig
from talos.config.effective import cluster as effective
from talos.config.model import Config

API_PORT = 50000
_LINKS = (BondConfig, BridgeConfig, DummyLinkConfig, LinkConfig, VLANConfig)

type _Address = IPv4Address | IPv6Address


def find_cut_offs(before: Config, after: Config, *, caller: str, reached: str, link: str) -> list[str]:
    """A line for each way in which ``after`` cuts the caller off who reached this node under ``before``.

    ``link`` is the link that has the address ``reached``. Texts that are no addresses are passed over.
    """
    try:
        source, own = ip_address(caller), ip_address(reached)
    except ValueError:
        return []
    if source.is_loopback:
        return []
    problems: list[str] = []
    if _accepts(before, source) and not _accepts(after, source):
        problems.append(
            f"the firewall closes the API to {source}, from where this call comes; "
            f"a NetworkRuleConfig for TCP port {API_PORT} keeps it open"
        )
    if _keeps(before, own, link) and not _keeps(after, own, link):
        problems.append(f"{own}, which this call has reached, is not an address of {link} any more")
    return problems


def _accepts(config: Config, source: _Address) -> bool:
    """Whether the firewall lets the caller through to the API's port."""
    default = config.find(NetworkDefaultActionConfig)
    blocks = default is not None and default.ingress == "block"
    inside = (*effective.pod_subnets(config), *effective.service_subnets(config))
    if blocks and any(source in ip_network(text, strict=False) for text in inside):
        return True
    for rule in config.find_all(NetworkRuleConfig):
        selector = rule.port_selector
        if selector is None or (selector.protocol or "tcp") != "tcp":
            continue
        if not any(_covers(ports, API_PORT) for ports in selector.ports or ()):
            continue
        senders = rule.ingress or ()
        is_named = _is_in(source, (item.subnet for item in senders if item.subnet)) and not _is_in(
            source, (item.except_ for item in senders if item.except_)
        )
        if is_named is blocks:
            # One rule that accepts is enough, as is one that drops.
            return blocks
    return not blocks


def _keeps(config: Config, own: _Address, link: str) -> bool:
    """Whether the config leaves the address to its link: named, by a server, or as the link is left out."""
    static, links, dynamic = _describe_links(config)
    return own in static or link in dynamic or link not in links


def _describe_links(config: Config) -> tuple[set[_Address], set[str], set[str]]:
    """Addresses that the config sets, links that it configures, and those among them that use DHCP."""
    static: set[_Address] = set()
    links: set[str] = set()
    dynamic = {document.name for document in config.find_all(DHCPv4Config)}
    for kind in _LINKS:
        for document in config.find_all(kind):
            links.add(document.name)
            if isinstance(document, BondConfig | BridgeConfig):
                links.update(document.links)
            static.update(_parse(item.address for item in document.addresses or ()))
    machine = config.machine
    for device in (machine and machine.network and machine.network.interfaces) or ():
        name = device.interface or ""
        links.add(name)
        static.update(_parse((*(device.addresses or ()), *((device.cidr,) if device.cidr else ()))))
        if device.dhcp or device.device_selector:
            # A selector may mean any link: no warning is better than a wrong one.
            dynamic.add(name)
        for vlan in device.vlans or ():
            links.add(f"{name}.{vlan.vlan_id}")
            static.update(_parse(vlan.addresses or ()))
    return static, links, dynamic


def _parse(texts: Iterable[str]) -> Iterator[_Address]:
    for text in texts:
        yield ip_interface(text).ip


def _is_in(address: _Address, networks: Iterable[str]) -> bool:
    return any(address in ip_network(text, strict=False) for text in networks)


def _covers(ports: str, port: int) -> bool:
    low, _, high = ports.partition("-")
    return int(low) <= port <= int(high or low)
