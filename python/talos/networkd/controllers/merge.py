"""Merging the layers of config into one spec per id: one controller for each kind."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from google.protobuf.message import Message

from talos.api.definitions.network_pb2 import (
    AddressSpecSpec,
    HostnameSpecSpec,
    LinkSpecSpec,
    OperatorSpecSpec,
    ResolverSpecSpec,
    RouteSpecSpec,
    RoutingRuleSpecSpec,
    TimeServerSpecSpec,
)
from talos.networkd.controllers.rule_spec import rule_spec_id
from talos.networkd.layers import CONFIG_NAMESPACE
from talos.resource import ids, kinds
from talos.resource.addresses import make_address_id, operator_id, parse_interface, route_spec_id
from talos.resource.controller.controller import (
    Controller,
    ControllerRuntime,
    Input,
    Output,
    Reconciler,
)
from talos.resource.kind import Kind
from talos.resource.resource import Phase, Resource

type Identify[S: Message] = Callable[[S], str]
type Combine[S: Message] = Callable[[Sequence[S]], S]


class MergeController[S: Message](Reconciler):
    """Combines the specs of all layers with the same id, lowest layer first."""

    def __init__(self, name: str, kind: Kind[S], identify: Identify[S], combine: Combine[S]) -> None:
        # One class, a controller for each kind: each instance has a name of its own.
        self.name = name  # pyright: ignore[reportAttributeAccessIssue]
        self.inputs = (Input(kind, namespace=CONFIG_NAMESPACE),)
        self.outputs = (Output(kind, shared=True),)
        self._kind = kind
        self._identify = identify
        self._combine = combine
        self._ids: dict[str, tuple[int, str]] = {}
        """By a layered resource's id: its version, and the id that it is merged under."""
        self._merged: dict[str, tuple[tuple[str, int], ...]] = {}
        """By a merged spec's id: ids and versions of what it consists of."""

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Merge all specs; of many, those whose parts have changed."""
        layers: defaultdict[str, list[Resource[S]]] = defaultdict(list)
        known, self._ids = self._ids, {}
        for resource in await runtime.list(self._kind, namespace=CONFIG_NAMESPACE):
            if resource.metadata.phase is not Phase.RUNNING:
                continue
            version = resource.metadata.version
            entry = known.get(resource.id)
            if entry is None or entry[0] != version:
                entry = version, self._identify(resource.spec)
            self._ids[resource.id] = entry
            layers[entry[1]].append(resource)
        merged, self._merged = self._merged, {}
        done: dict[str, tuple[tuple[str, int], ...]] = {}
        async with runtime.track_outputs():
            for key, resources in layers.items():
                parts = tuple((resource.id, resource.metadata.version) for resource in resources)
                if merged.get(key) == parts:
                    runtime.keep(self._kind, key)
                else:
                    specs = sorted((resource.spec for resource in resources), key=_layer)
                    await runtime.put(self._kind, key, self._combine(specs))
                done[key] = parts
        self._merged = done


def _layer(spec: Message) -> int:
    return int(getattr(spec, "config_layer"))  # noqa: B009 - every spec that is merged has it


def take_highest[S: Message](specs: Sequence[S]) -> S:
    """The spec of the highest layer, unchanged."""
    return specs[-1]


def overlay[S: Message](specs: Sequence[S]) -> S:
    """Field by field: what a higher layer sets replaces what a lower one did."""
    merged = type(specs[0])()
    for spec in specs:
        for field, value in spec.ListFields():
            if field.is_repeated:
                merged.ClearField(field.name)
                getattr(merged, field.name).extend(value)
            elif field.message_type is not None:
                getattr(merged, field.name).CopyFrom(value)
            else:
                setattr(merged, field.name, value)
    return merged


def combine_links(specs: Sequence[LinkSpecSpec]) -> LinkSpecSpec:
    """As an overlay; off is no value of its own in protobuf, so that the highest layer decides."""
    merged = overlay(specs)
    merged.up = specs[-1].up
    return merged


def combine_resolvers(specs: Sequence[ResolverSpecSpec]) -> ResolverSpecSpec:
    """As an overlay; several links of one layer add up."""
    highest = max(map(_layer, specs))
    merged = overlay([spec for spec in specs if _layer(spec) < highest] or [ResolverSpecSpec()])
    result = ResolverSpecSpec()
    for spec in specs:
        if _layer(spec) == highest:
            result.MergeFrom(spec)
    return overlay([merged, result])


def make_merge_controllers() -> list[Controller]:
    """One for each kind of config."""
    return [
        MergeController[LinkSpecSpec](
            "network.LinkMergeController", kinds.LINK_SPEC, lambda spec: spec.name, combine_links
        ),
        MergeController[AddressSpecSpec](
            "network.AddressMergeController",
            kinds.ADDRESS_SPEC,
            lambda spec: make_address_id(spec.link_name, parse_interface(spec.address)),
            take_highest,
        ),
        MergeController[RouteSpecSpec](
            "network.RouteMergeController", kinds.ROUTE_SPEC, route_spec_id, take_highest
        ),
        MergeController[HostnameSpecSpec](
            "network.HostnameMergeController",
            kinds.HOSTNAME_SPEC,
            lambda _: ids.id_of(ids.HOSTNAME_SPEC),
            take_highest,
        ),
        MergeController[ResolverSpecSpec](
            "network.ResolverMergeController",
            kinds.RESOLVER_SPEC,
            lambda _: ids.id_of(ids.RESOLVER_SPEC),
            combine_resolvers,
        ),
        MergeController[TimeServerSpecSpec](
            "network.TimeServerMergeController",
            kinds.TIME_SERVER_SPEC,
            lambda _: ids.id_of(ids.TIME_SERVER_SPEC),
            take_highest,
        ),
        MergeController[RoutingRuleSpecSpec](
            "network.RoutingRuleMergeController", kinds.ROUTING_RULE_SPEC, rule_spec_id, take_highest
        ),
        MergeController[OperatorSpecSpec](
            "network.OperatorMergeController", kinds.OPERATOR_SPEC, operator_id, take_highest
        ),
    ]
