"""The platform's network config (PlatformConfig, written by machined) as specs of its layer."""

from google.protobuf.message import Message

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.networkd.platform import read_platform
from talos.resource import ids, kinds
from talos.resource.addresses import make_address_id, operator_id, parse_interface, route_spec_id
from talos.resource.changes import copy_spec
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.kind import Kind

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
    """Writes one spec for each item of the platform's config."""

    name = "network.PlatformConfigApplyController"
    inputs = (Input(kinds.PLATFORM_CONFIG),)
    outputs = tuple(Output(kind, shared=True) for kind in _KINDS)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the specs of the config, if there is one."""
        config = await read_platform(runtime)
        if config is None:
            return
        async with runtime.track_outputs():
            for kind, name, spec in make_specs(copy_spec(config)):
                setattr(spec, "config_layer", enums_pb2.CONFIG_PLATFORM)  # noqa: B010 - all kinds have it
                spec_id = layered_id(enums_pb2.CONFIG_PLATFORM, name)
                await runtime.put(kind, spec_id, spec, namespace=CONFIG_NAMESPACE)


def make_specs(config: PlatformConfigSpec) -> list[tuple[Kind[Message], str, Message]]:
    """Every spec with its kind and its id without the layer."""
    specs: list[tuple[Kind[Message], str, Message]] = []
    specs += [(kinds.LINK_SPEC, link.name, link) for link in config.links]
    for address in config.addresses:
        address_id = make_address_id(address.link_name, parse_interface(address.address))
        specs.append((kinds.ADDRESS_SPEC, address_id, address))
    specs += [(kinds.ROUTE_SPEC, route_spec_id(route), route) for route in config.routes]
    specs += [(*ids.HOSTNAME_SPEC, hostname) for hostname in config.hostnames]
    specs += [(*ids.RESOLVER_SPEC, resolver) for resolver in config.resolvers]
    specs += [(*ids.TIME_SERVER_SPEC, server) for server in config.time_servers]
    for operator in config.operators:
        specs.append((kinds.OPERATOR_SPEC, operator_id(operator), operator))
    return specs
