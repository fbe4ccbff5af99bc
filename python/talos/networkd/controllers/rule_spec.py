"""RoutingRuleSpec: routing rules of the machine config, applied to the kernel."""

from collections.abc import Sequence
from ipaddress import IPv6Interface

from talos.api.addresses import make_prefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import RoutingRuleSpecSpec
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.documents.network.routing_rule import RoutingRuleConfig
from talos.networkd.controllers.kernel import KernelReconciler
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.networkd.spec_makers import parse_table
from talos.resource import kinds
from talos.resource.addresses import make_rule_id, parse_network
from talos.resource.controller.controller import ControllerRuntime, Input, InputStrength, Output, Reconciler
from talos.resource.resource import Phase
from talos.system.net.links import RTPROT_STATIC, RuleState, Topic

_LAYER = enums_pb2.CONFIG_MACHINE_CONFIGURATION
_ACTIONS = {
    "unspec": enums_pb2.ROUTING_RULE_ACTION_UNICAST,
    "unicast": enums_pb2.ROUTING_RULE_ACTION_UNICAST,
    "blackhole": enums_pb2.ROUTING_RULE_ACTION_BLACKHOLE,
    "unreachable": enums_pb2.ROUTING_RULE_ACTION_UNREACHABLE,
    "prohibit": enums_pb2.ROUTING_RULE_ACTION_PROHIBIT,
}
_FAMILIES = (enums_pb2.FAMILY_INET4, enums_pb2.FAMILY_INET6)


class RoutingRuleConfigController(Reconciler):
    """MachineConfig → RoutingRuleSpec of its layer."""

    name = "network.RoutingRuleConfigController"
    inputs = PARTIAL_CONFIG_INPUTS
    outputs = (Output(kinds.ROUTING_RULE_SPEC, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config."""
        config = await read_partial_config(runtime)
        async with runtime.track_outputs():
            for document in config.find_all(RoutingRuleConfig) if config else ():
                for spec in make_rules(document):
                    spec_id = layered_id(_LAYER, rule_spec_id(spec))
                    await runtime.put(kinds.ROUTING_RULE_SPEC, spec_id, spec, namespace=CONFIG_NAMESPACE)


class RoutingRuleSpecController(KernelReconciler):
    """Adds rules that are missing, and removes those of ours without a spec or with another content.

    A rule has no key in the kernel; ours are recognized by their protocol and by the priority of a spec.
    """

    name = "network.RoutingRuleSpecController"
    inputs = (Input(kinds.ROUTING_RULE_SPEC, strength=InputStrength.STRONG),)
    topics = Topic.RULE

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Apply the differences."""
        resources = await runtime.list(kinds.ROUTING_RULE_SPEC)
        if not resources:
            return
        present: dict[tuple[int, int], list[RuleState]] = {}
        for rule in await self.links.rules():
            if rule.protocol == RTPROT_STATIC:
                present.setdefault((rule.family, rule.priority), []).append(rule)
        for resource in resources:
            wanted = make_state(resource.spec)
            here = present.get((wanted.family, wanted.priority), [])
            if resource.metadata.phase is Phase.TEARING_DOWN:
                for rule in here:
                    await self._remove(resource.id, rule)
                await runtime.remove_finalizer(kinds.ROUTING_RULE_SPEC, resource.id)
                continue
            if not await self.hold(runtime, kinds.ROUTING_RULE_SPEC, resource):
                continue
            await self._set(resource.id, wanted, here)

    async def _set(self, rule_id: str, wanted: RuleState, here: Sequence[RuleState]) -> None:
        for rule in here:
            if rule != wanted:
                await self._remove(rule_id, rule)
        if wanted in here:
            return
        if await self.attempt(f"routing rule {rule_id}", self.links.add_rule(wanted)):
            self.log.info(f"routing rule {rule_id} added")

    async def _remove(self, rule_id: str, rule: RuleState) -> None:
        self.log.info(f"routing rule {rule_id} removed")
        await self.attempt(f"removing routing rule {rule_id}", self.links.remove_rule(rule))


def make_rules(document: RoutingRuleConfig) -> list[RoutingRuleSpecSpec]:
    """The rule, for both versions of IP when it names no address."""
    source, destination = (
        prefix.interface.network if prefix else None for prefix in (document.src, document.dst)
    )
    known = document.src or document.dst
    families = _FAMILIES
    if known:
        families = (_FAMILIES[1 if isinstance(known.interface, IPv6Interface) else 0],)
    specs: list[RoutingRuleSpecSpec] = []
    for family in families:
        spec = RoutingRuleSpecSpec(
            family=family,
            priority=int(document.name),
            action=_ACTIONS[document.action or "unicast"],
            iif_name=document.iif_name or "",
            oif_name=document.oif_name or "",
            fw_mark=document.fw_mark or 0,
            fw_mask=document.fw_mask or 0,
            config_layer=_LAYER,
        )
        setattr(spec, "table", parse_table(document.table))  # noqa: B010 - any number is a table's
        if source is not None and source.prefixlen:
            spec.src.CopyFrom(make_prefix(source))
        if destination is not None and destination.prefixlen:
            spec.dst.CopyFrom(make_prefix(destination))
        specs.append(spec)
    return specs


def rule_spec_id(spec: RoutingRuleSpecSpec) -> str:
    """The id of a rule's spec, that of its status."""
    return make_rule_id(spec.family, spec.priority)


def make_state(spec: RoutingRuleSpecSpec) -> RuleState:
    """The rule as the kernel shows it: a mark without a mask is compared as a whole."""
    mask = spec.fw_mask or (0xFFFFFFFF if spec.fw_mark else 0)
    is_lookup = spec.action == enums_pb2.ROUTING_RULE_ACTION_UNICAST
    return RuleState(
        family=int(spec.family),
        priority=spec.priority,
        source=parse_network(spec.src),
        destination=parse_network(spec.dst),
        table=int(spec.table) if is_lookup else 0,
        action=int(spec.action),
        input_link=spec.iif_name,
        output_link=spec.oif_name,
        mark=spec.fw_mark,
        mask=mask,
        protocol=RTPROT_STATIC,
    )
