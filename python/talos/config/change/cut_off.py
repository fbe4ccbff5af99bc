"""Whether a config closes the way by which it came: to the node's address, or through its firewall."""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from talos.config.documents.network.network_default_action import NetworkDefaultActionConfig
from talos.config.documents.network.network_rule import NetworkRuleConfig
from talos.config.effective import cluster as effective
from talos.config.effective.links import IPAddress, LinkUse, find_link_uses
from talos.config.model import Config

API_PORT = 50000


def find_cut_offs(
    before: Config,
    after: Config,
    *,
    caller: str,
    reached: str,
    link: str,
    names: Collection[str] = (),
    others: Sequence[LinkUse] = (),
) -> list[str]:
    """A line for each way in which ``after`` cuts the caller off who reached this node under ``before``.

    ``link`` is the link that has the address ``reached``, ``names`` are its others; ``others`` is what links
    have from elsewhere than a config, whatever that has. Texts that are no addresses are passed over.
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
    own_names = {name for name in (link, *names) if name}
    was = _find_reach((*others, *find_link_uses(before)), own, own_names)
    will = _find_reach((*others, *find_link_uses(after)), own, own_names)
    loss = _find_loss(was, will)
    if loss:
        problems.append(f"{own}, which this call has reached, {loss.format(link=link)}")
    return problems


def _accepts(config: Config, source: IPAddress) -> bool:
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


@dataclass(frozen=True, slots=True)
class _Reach:
    """What a config and the other sources do for an address and for the link that has it."""

    is_set: bool
    """Whether one of them has the address, on a link that can receive."""
    is_served: bool
    """Whether the link may have it from elsewhere: from a server, a router, or as no document is about it."""
    is_made: bool
    """Whether the config makes the link."""


def _find_loss(was: _Reach, will: _Reach) -> str:
    """How the link loses the address, empty when it doesn't."""
    if will.is_set or not (was.is_set or was.is_served):
        return ""
    if not will.is_served or (was.is_made and not will.is_made):
        return "is not an address of {link} any more"
    return "is not set on {link} any more; a DHCP server may give it another" if was.is_set else ""


def _find_reach(uses: Sequence[LinkUse], own: IPAddress, link: Set[str]) -> _Reach:
    deaf = {port for use in uses for port in use.ports} | {use.name for use in uses if use.is_down}
    if not deaf.isdisjoint(link):
        deaf.update(link)
    ours = [use for use in uses if use.name in link]
    # Routers announce prefixes of IPv6 on any link that is up.
    is_dynamic = own.version == 6 or not ours or any(own.version in use.dhcp for use in ours)
    return _Reach(
        is_set=any(own in use.addresses for use in uses if use.name not in deaf),
        is_served=is_dynamic and deaf.isdisjoint(link),
        is_made=any(use.is_made for use in ours),
    )


def _is_in(address: IPAddress, networks: Iterable[str]) -> bool:
    return any(address in ip_network(text, strict=False) for text in networks)


def _covers(ports: str, port: int) -> bool:
    low, _, high = ports.partition("-")
    return int(low) <= port <= int(high or low)
