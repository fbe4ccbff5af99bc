"""``NetworkRuleConfig``: a rule of the firewall."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Merge, Section, setting
from talos.config.values import PortRange, Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePortSelector(Section):
    """Selector of ports."""

    ports: tuple[PortRange, ...] | None = setting("ports and ranges", merge=Merge.REPLACE)
    protocol: str | None = setting("protocol", allowed=("tcp", "udp", "icmp", "icmpv6"))


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressRule(Section):
    """Accepted senders."""

    subnet: Prefix | None = setting("accepted network")
    except_: Prefix | None = setting("part of the network that is not accepted")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRuleConfig(Document):
    """A rule of the firewall."""

    kind: ClassVar[str] = "NetworkRuleConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the rule", default="")
    port_selector: RulePortSelector | None = setting("selector of ports")
    ingress: tuple[IngressRule, ...] | None = setting("accepted senders", merge=Merge.REPLACE)
