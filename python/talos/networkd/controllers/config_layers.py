"""The links of the kernel's command line and of the machine config, as specs of their layers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, override

from google.protobuf.message import Message

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import LinkSpecSpec, OperatorSpecSpec, PlatformConfigSpec
from talos.api.resource.device_config_pb2 import DeviceConfigSpecSpec
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.model import Config
from talos.config.write.plain import to_plain
from talos.networkd.cmdline import CmdlineNetwork, parse_network
from talos.networkd.controllers.link_status import is_physical
from talos.networkd.controllers.platform_config import make_specs
from talos.networkd.device_config import DeviceConfig, find_link_facts, make_device_config
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.networkd.operators import make_dhcp4
from talos.networkd.platform import read_platform
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.kind import Kind
from talos.resource.resource import Phase
from talos.resource.yaml.text import to_yaml
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline

_CMDLINE_KINDS = (
    kinds.LINK_SPEC,
    kinds.ADDRESS_SPEC,
    kinds.ROUTE_SPEC,
    kinds.OPERATOR_SPEC,
    kinds.HOSTNAME_SPEC,
    kinds.RESOLVER_SPEC,
    kinds.TIME_SERVER_SPEC,
)
_DEVICE_KINDS = _CMDLINE_KINDS[:4]
SOURCES = (
    Input(*ids.KERNEL_CMDLINE),
    *PARTIAL_CONFIG_INPUTS,
    Input(kinds.PLATFORM_CONFIG),
    Input(kinds.LINK_STATUS),
)
"""What :func:`read_sources` reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What command line, machine config and platform have of links."""

    links: frozenset[str]
    """Those that they configure, or want left alone: none of these requests an address by default."""
    operators: tuple[OperatorSpecSpec, ...]


class LayerController(Reconciler):
    """Writes the specs of one layer; malformed parts of its source are logged and ignored."""

    layer: ClassVar[enums_pb2.NetworkConfigLayer]

    def __init__(self, log: Log) -> None:
        self._log = log
        self._written: PlatformConfigSpec | None = None
        """What was written last, which is the same object while its source stays the same."""

    async def read(self, runtime: ControllerRuntime) -> tuple[PlatformConfigSpec, Sequence[str]]:
        """The layer's specs, and the errors of their source."""
        raise NotImplementedError

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Read the source again, as the links that it selects may have changed."""
        specs, problems = await self.read(runtime)
        if specs is self._written:
            return
        self._written = None
        for problem in problems:
            self._log.once(problem)
        async with runtime.track_outputs():
            await write_layer(runtime, self.layer, make_specs(specs))
        self._written = specs


class CmdlineConfigController(LayerController):
    """Writes the specs of the kernel's command line."""

    name = "network.CmdlineConfigController"
    inputs = (Input(*ids.KERNEL_CMDLINE), Input(kinds.LINK_STATUS))
    outputs = tuple(Output(kind, shared=True) for kind in _CMDLINE_KINDS)
    layer = enums_pb2.CONFIG_CMDLINE

    @override
    async def read(self, runtime: ControllerRuntime) -> tuple[PlatformConfigSpec, Sequence[str]]:
        network = await read_cmdline(runtime)
        return network.config, [f"kernel argument {problem}" for problem in network.problems]


class LinkConfigController(LayerController):
    """Writes the specs of the machine config, and of links that it selects by their properties."""

    name = "network.LinkConfigController"
    inputs = (*PARTIAL_CONFIG_INPUTS, Input(kinds.LINK_STATUS))
    outputs = tuple(Output(kind, shared=True) for kind in _DEVICE_KINDS)
    layer = enums_pb2.CONFIG_MACHINE_CONFIGURATION

    @override
    async def read(self, runtime: ControllerRuntime) -> tuple[PlatformConfigSpec, Sequence[str]]:
        config = await read_devices(runtime)
        return config.specs, config.problems


class DeviceConfigController(Reconciler):
    """Shows the items of ``machine.network.interfaces``, each with the link that it means."""

    name = "network.DeviceConfigController"
    inputs = (*PARTIAL_CONFIG_INPUTS, Input(kinds.LINK_STATUS))
    outputs = (Output(kinds.DEVICE_CONFIG_SPEC),)

    def __init__(self) -> None:
        self._written: DeviceConfig | None = None

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write them again when the config or the links that it selects are others."""
        config = await read_devices(runtime)
        if config is self._written:
            return
        self._written = None
        async with runtime.track_outputs():
            for place, device in config.devices.items():
                spec = DeviceConfigSpecSpec(yaml_marshalled=to_yaml(to_plain(device)).encode())
                await runtime.put(kinds.DEVICE_CONFIG_SPEC, place, spec)
        self._written = config


class OperatorConfigController(Reconciler):
    """Sets physical links up, and requests DHCP on those without configuration."""

    name = "network.OperatorConfigController"
    inputs = (
        *SOURCES,
        Input(kinds.LINK_SPEC, namespace=CONFIG_NAMESPACE),
    )
    outputs = (Output(kinds.LINK_SPEC, shared=True), Output(kinds.OPERATOR_SPEC, shared=True))

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Recompute the specs of every link."""
        layer = enums_pb2.CONFIG_DEFAULT
        # The sources themselves, too: their controllers may not have written yet, and a link that has
        # an address of its own must send no request in the meantime.
        configured = (await read_sources(runtime)).links | {
            resource.spec.name
            for resource in await runtime.list(kinds.LINK_SPEC, namespace=CONFIG_NAMESPACE)
            if resource.metadata.phase is Phase.RUNNING
            and resource.spec.config_layer not in (layer, enums_pb2.CONFIG_OPERATOR)
        }
        specs = PlatformConfigSpec()
        for resource in await runtime.list(kinds.LINK_STATUS):
            name = resource.id
            if not is_physical(resource.spec) or name in configured:
                continue
            specs.links.append(
                LinkSpecSpec(name=name, up=True, type=enums_pb2.LINK_ETHER, config_layer=layer)
            )
            specs.operators.append(make_dhcp4(name, layer))
        async with runtime.track_outputs():
            await write_layer(runtime, layer, make_specs(specs))


async def read_sources(runtime: ControllerRuntime) -> Sources:
    """The links of all sources."""
    cmdline, devices = await read_cmdline(runtime), await read_devices(runtime)
    platform = await read_platform(runtime)
    configs = [cmdline.config, devices.specs, *([platform] if platform else [])]
    links = {link.name for config in configs for link in config.links}
    return Sources(
        links=frozenset(links | cmdline.ignored | devices.ignored),
        operators=tuple(operator for config in configs for operator in config.operators),
    )


async def read_cmdline(runtime: ControllerRuntime) -> CmdlineNetwork:
    """The network specs of the command line."""
    resource = await runtime.get_or_none(*ids.KERNEL_CMDLINE)
    if resource is None:
        return CmdlineNetwork()
    names = [link.id for link in await runtime.list(kinds.LINK_STATUS) if is_physical(link.spec)]
    return parse_network(parse_cmdline(resource.spec.cmdline), min(names, default=""))


async def read_devices(runtime: ControllerRuntime) -> DeviceConfig:
    """The link specs of the machine config; the same object while config and links are the same."""
    config = await read_partial_config(runtime)
    if config is None:
        return DeviceConfig()
    links = {link.id: link.spec for link in await runtime.list(kinds.LINK_STATUS)}
    facts = find_link_facts(config, links)
    if _derived.config is not config or _derived.facts != facts:
        _derived.config, _derived.facts, _derived.value = config, facts, make_device_config(config, links)
    return _derived.value


@dataclass(slots=True)
class _DerivedConfig:
    """What several controllers derive from the config and the links, made once for each state of both."""

    config: Config | None = None
    facts: tuple[tuple[object, ...], ...] = ()
    value: DeviceConfig = field(default_factory=DeviceConfig)


_derived = _DerivedConfig()


async def write_layer(
    runtime: ControllerRuntime,
    layer: enums_pb2.NetworkConfigLayer,
    specs: Sequence[tuple[Kind[Message], str, Message]],
) -> None:
    """Write specs of one layer."""
    for kind, name, spec in specs:
        await runtime.put(kind, layered_id(layer, name), spec, namespace=CONFIG_NAMESPACE)
