"""The platform's network config (PlatformConfig, written by machined) as specs of its layer."""

from google.protobuf.message import Message

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.networkd.addresses import make_address_id, operator_id, parse_interface, route_spec_id
from talos.networkd.layers import (
    CONFIG_NAMESPACE,
    HOSTNAME_ID,
    RESOLVERS_ID,
    TIME_SERVERS_ID,
    layered_id,
)
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.kind import Kind

# What the platform says now is preferred to what it said at an earlier boot.
ACTIVE_ID = "active"
CACHED_ID = "cached"

_KINDS = (
    kinds.LINK_SPEC,
    kinds.ADDRESS_SPEC,
    kinds.ROUTE_SPEC,
    kinds.HOSTNAME_SPEC,
    kinds.RESOLVER_SPEC,
    kinds.TIME_SERVER_SPEC,
    kinds.OPERATOR_SPEC,
)


class PlatformConfigApplyController(Reconciler):
    """Takes the platform's config apart into one spec per thing."""

    name = "network.PlatformConfigApplyController"
    inputs = (Input(kinds.PLATFORM_CONFIG),)
    outputs = tuple(Output(kind, shared=True) for kind in _KINDS)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Apply the config at hand; nothing happens before there is one."""
        found = {resource.id: resource.spec for resource in await runtime.list(kinds.PLATFORM_CONFIG)}
        config = found.get(ACTIVE_ID) or found.get(CACHED_ID)
        if config is None:
            return
        async with runtime.track_outputs():
            for kind, name, spec in make_specs(config):
                await runtime.modify(
                    kind,
                    layered_id(enums_pb2.CONFIG_PLATFORM, name),
                    lambda old, new=spec: _replace(old, new),
                    namespace=CONFIG_NAMESPACE,
                )


def make_specs(config: PlatformConfigSpec) -> list[tuple[Kind[Message], str, Message]]:
    """Every spec with its kind and its id, that of the layer aside."""
    specs: list[tuple[Kind[Message], str, Message]] = []
    specs += [(kinds.LINK_SPEC, link.name, link) for link in config.links]
    for address in config.addresses:
        address_id = make_address_id(address.link_name, parse_interface(address.address))
        specs.append((kinds.ADDRESS_SPEC, address_id, address))
    specs += [(kinds.ROUTE_SPEC, route_spec_id(route), route) for route in config.routes]
    specs += [(kinds.HOSTNAME_SPEC, HOSTNAME_ID, hostname) for hostname in config.hostnames]
    specs += [(kinds.RESOLVER_SPEC, RESOLVERS_ID, resolver) for resolver in config.resolvers]
    specs += [(kinds.TIME_SERVER_SPEC, TIME_SERVERS_ID, server) for server in config.time_servers]
    for operator in config.operators:
        specs.append((kinds.OPERATOR_SPEC, operator_id(operator), operator))
    return specs


def _replace(old: Message, new: Message) -> None:
    old.CopyFrom(new)
    setattr(old, "config_layer", enums_pb2.CONFIG_PLATFORM)  # noqa: B010 - every spec of these kinds has it
