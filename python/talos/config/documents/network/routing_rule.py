"""``RoutingRuleConfig``: a rule that picks the routing table."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import UINT32, Document, setting
from talos.config.values import Prefix, RoutingTable


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRuleConfig(Document):
    """A rule that picks the routing table."""

    kind: ClassVar[str] = "RoutingRuleConfig"
    named: ClassVar[bool] = True

    name: str = setting("priority of the rule", default="")
    src: Prefix | None = setting("source prefix")
    dst: Prefix | None = setting("destination prefix")
    table: RoutingTable | None = setting("table to use")
    action: str | None = setting(
        "what to do (default: unicast)",
        allowed=("unspec", "unicast", "blackhole", "unreachable", "prohibit"),
    )
    iif_name: str | None = setting("link the packet came in by")
    oif_name: str | None = setting("link the packet goes out by")
    fw_mark: int | None = setting("mark of the packet", bounds=UINT32)
    fw_mask: int | None = setting("which bits of the mark count", bounds=UINT32)
