"""What the kernel's command line and the machine config say about links, as specs of their layers."""

import logging
from collections.abc import Sequence

from google.protobuf.message import Message

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import LinkSpecSpec, PlatformConfigSpec
from talos.config.read.loader import load
from talos.networkd.cmdline import CmdlineNetwork, parse_network
from talos.networkd.controllers.link_status import is_physical
from talos.networkd.controllers.platform_config import make_specs
from talos.networkd.device_config import DeviceConfig, make_device_config
from talos.networkd.layers import ACTIVE_CONFIG, CMDLINE_ID, CONFIG_NAMESPACE, layered_id
from talos.networkd.spec_makers import make_dhcp4
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.kind import Kind
from talos.resource.resource import Phase
from talos.system.proc.cmdline import parse_cmdline

log = logging.getLogger(__name__)

_LOOPBACK = "lo"


class CmdlineConfigController(Reconciler):
    """Writes the specs of the command line; what is malformed is told and ignored."""

    name = "network.CmdlineConfigController"
    inputs = (Input(kinds.KERNEL_CMDLINE, id=CMDLINE_ID), Input(kinds.LINK_STATUS))
    outputs = tuple(
        Output(kind, shared=True)
        for kind in (
            kinds.LINK_SPEC,
            kinds.ADDRESS_SPEC,
            kinds.ROUTE_SPEC,
            kinds.OPERATOR_SPEC,
            kinds.HOSTNAME_SPEC,
            kinds.RESOLVER_SPEC,
            kinds.TIME_SERVER_SPEC,
        )
    )

    def __init__(self) -> None:
        self._told: set[str] = set()

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Read the command line anew: which link is the first may have changed."""
        network = await read_cmdline(runtime)
        for problem in network.problems:
            if problem not in self._told:
                self._told.add(problem)
                log.warning("kernel argument %s", problem)
        async with runtime.track_outputs():
            await write_layer(runtime, enums_pb2.CONFIG_CMDLINE, make_specs(network.config))


class LinkConfigController(Reconciler):
    """Writes the specs of the machine config."""

    name = "network.LinkConfigController"
    inputs = (Input(kinds.MACHINE_CONFIG, id=ACTIVE_CONFIG), Input(kinds.LINK_STATUS))
    outputs = tuple(
        Output(kind, shared=True)
        for kind in (
            kinds.LINK_SPEC,
            kinds.ADDRESS_SPEC,
            kinds.ROUTE_SPEC,
            kinds.OPERATOR_SPEC,
        )
    )

    def __init__(self) -> None:
        self._told: set[str] = set()

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config, and links that it selects by what they are."""
        config = await read_devices(runtime)
        for problem in config.problems:
            if problem not in self._told:
                self._told.add(problem)
                log.warning("%s", problem)
        async with runtime.track_outputs():
            specs = make_specs(config.specs)
            await write_layer(runtime, enums_pb2.CONFIG_MACHINE_CONFIGURATION, specs)


class OperatorConfigController(Reconciler):
    """Switches physical links on, and asks for DHCP on those that nothing configures."""

    name = "network.OperatorConfigController"
    inputs = (
        Input(kinds.LINK_STATUS),
        Input(kinds.LINK_SPEC, namespace=CONFIG_NAMESPACE),
        Input(kinds.KERNEL_CMDLINE, id=CMDLINE_ID),
        Input(kinds.MACHINE_CONFIG, id=ACTIVE_CONFIG),
    )
    outputs = (Output(kinds.LINK_SPEC, shared=True), Output(kinds.OPERATOR_SPEC, shared=True))

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Look at every link anew."""
        layer = enums_pb2.CONFIG_DEFAULT
        ignored = (await read_cmdline(runtime)).ignored | (await read_devices(runtime)).ignored
        configured = {
            resource.spec.name
            for resource in await runtime.list(kinds.LINK_SPEC, namespace=CONFIG_NAMESPACE)
            if resource.metadata.phase is Phase.RUNNING
            and resource.spec.config_layer not in (layer, enums_pb2.CONFIG_OPERATOR)
        }
        specs = PlatformConfigSpec()
        for resource in await runtime.list(kinds.LINK_STATUS):
            name = resource.id
            if not is_physical(resource.spec) or name in ignored | configured:
                continue
            specs.links.append(
                LinkSpecSpec(name=name, up=True, type=enums_pb2.LINK_ETHER, config_layer=layer)
            )
            specs.operators.append(make_dhcp4(name, layer))
        async with runtime.track_outputs():
            await write_layer(runtime, layer, make_specs(specs))


async def read_cmdline(runtime: ControllerRuntime) -> CmdlineNetwork:
    """The command line's word on the network."""
    resource = await runtime.get_or_none(kinds.KERNEL_CMDLINE, CMDLINE_ID)
    if resource is None:
        return CmdlineNetwork()
    names = [link.id for link in await runtime.list(kinds.LINK_STATUS) if is_physical(link.spec)]
    return parse_network(parse_cmdline(resource.spec.cmdline), min(names, default=""))


async def read_devices(runtime: ControllerRuntime) -> DeviceConfig:
    """The machine config's word on links."""
    resource = await runtime.get_or_none(kinds.MACHINE_CONFIG, ACTIVE_CONFIG)
    if resource is None:
        return DeviceConfig()
    links = {link.id: link.spec for link in await runtime.list(kinds.LINK_STATUS)}
    return make_device_config(load(resource.spec.yaml_marshalled), links)


async def write_layer(
    runtime: ControllerRuntime,
    layer: enums_pb2.NetworkConfigLayer,
    specs: Sequence[tuple[Kind[Message], str, Message]],
) -> None:
    """Write specs of one layer."""
    for kind, name, spec in specs:
        await runtime.modify(
            kind,
            layered_id(layer, name),
            lambda old, new=spec: old.CopyFrom(new),
            namespace=CONFIG_NAMESPACE,
        )
