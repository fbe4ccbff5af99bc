"""Routing rules between pyroute2's messages and what controllers compare."""

from ipaddress import ip_network
from typing import Any

from talos.system.net.link_messages import make_text
from talos.system.net.links import Network, RuleState


def parse_rule(message: Any) -> RuleState:
    """A rule out of the kernel's message."""
    return RuleState(
        family=message["family"],
        priority=message.get("FRA_PRIORITY") or 0,
        source=_network(message.get("FRA_SRC"), message["src_len"]),
        destination=_network(message.get("FRA_DST"), message["dst_len"]),
        table=message.get("FRA_TABLE") or message["table"],
        action=message["action"],
        input_link=make_text(message.get("FRA_IIFNAME")),
        output_link=make_text(message.get("FRA_OIFNAME")),
        mark=message.get("FRA_FWMARK") or 0,
        mask=message.get("FRA_FWMASK") or 0,
        protocol=message.get("FRA_PROTOCOL") or 0,
    )


def _network(address: str | None, length: int) -> Network | None:
    return ip_network(f"{address}/{length}") if address else None


def make_rule_attributes(rule: RuleState) -> dict[str, Any]:
    """A request's attributes."""
    attributes: dict[str, Any] = {
        "family": rule.family,
        "priority": rule.priority,
        "action": rule.action,
        "table": rule.table,
        "protocol": rule.protocol,
    }
    for key, network in (("src", rule.source), ("dst", rule.destination)):
        if network is not None:
            attributes[key] = str(network.network_address)
            attributes[f"{key}_len"] = network.prefixlen
    if rule.input_link:
        attributes["iifname"] = rule.input_link
    if rule.output_link:
        attributes["oifname"] = rule.output_link
    if rule.mark or rule.mask:
        attributes |= {"fwmark": rule.mark, "fwmask": rule.mask}
    return attributes
