"""``NetworkRuleConfig``: a rule of the firewall."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Merge, Section, setting
from talos.config.values import PortRange, Prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePortSelector(Section):
    """Which ports."""

    ports: tuple[PortRange, ...] | None = setting("ports and ranges", merge=Merge.REPLACE)
    protocol: str | None = setting("protocol", allowed=("tcp", "udp", "icmp", "icmpv6"))


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressRule(Section):
    """Which senders are let in."""

    subnet: Prefix | None = setting("network that is let in")
    except_: Prefix | None = setting("part of it that is not")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRuleConfig(Document):
    """A rule of the firewall."""

    kind: ClassVar[str] = "NetworkRuleConfig"
    named: ClassVar[bool] = True

    name: str = setting("name of the rule", default="")
    port_selector: RulePortSelector | None = setting("which ports")
    ingress: tuple[IngressRule, ...] | None = setting("which senders are let in", merge=Merge.REPLACE)
