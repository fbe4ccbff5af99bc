"""RoutingRuleStatus: the routing rules of the kernel."""

from talos.api.definitions.network_pb2 import RoutingRuleStatusSpec
from talos.networkd.addresses import make_prefix, make_rule_id, number
from talos.networkd.controllers.kernel import KernelReconciler
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Output
from talos.system.net.links import RuleState, Topic

# IPv4 and IPv6; the kernel has rules for other families as well.
_FAMILIES = (2, 10)


class RoutingRuleStatusController(KernelReconciler):
    """Writes one RoutingRuleStatus per family and priority."""

    name = "network.RoutingRuleStatusController"
    outputs = (Output(kinds.ROUTING_RULE_STATUS),)
    topics = Topic.RULE

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the kernel's state."""
        async with runtime.track_outputs():
            for rule in await self.links.rules():
                if rule.family in _FAMILIES:
                    rule_id = make_rule_id(rule.family, rule.priority)
                    await runtime.put(kinds.ROUTING_RULE_STATUS, rule_id, make_status(rule))


def make_status(rule: RuleState) -> RoutingRuleStatusSpec:
    """A rule as the API shows it."""
    status = RoutingRuleStatusSpec(
        family=number(rule.family),
        table=number(rule.table),
        priority=rule.priority,
        action=number(rule.action),
        iif_name=rule.input_link,
        oif_name=rule.output_link,
        fw_mark=rule.mark,
        fw_mask=rule.mask,
    )
    if rule.source is not None:
        status.src.CopyFrom(make_prefix(rule.source))
    if rule.destination is not None:
        status.dst.CopyFrom(make_prefix(rule.destination))
    return status
