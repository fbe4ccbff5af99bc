"""PlatformConfig of a machine without a cloud: the network in META, as a factory or an imager wrote it."""

from typing import cast, override

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.machined.node.resources import BOOT_CONTROLLER
from talos.machined.platform.values import read_yaml
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.yaml.parse import value_to_message
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.parsed import as_object

KEY = "0x0a"
"""The id of the MetaKey resource with the network."""
_LISTS = (
    "addresses",
    "links",
    "routes",
    "hostnames",
    "resolvers",
    "time_servers",
    "operators",
    "external_ips",
    "probes",
)
LACP = "802.3ad"
BOND_DEFAULTS: dict[str, object] = {
    "adLacpActive": "on",
    "lpInterval": 1,
    "missedMax": 2,
    "numPeerNotif": 1,
    "packetsPerSlave": 1,
    "resendIgmp": 1,
    "tlbLogicalLb": 1,
    "useCarrier": True,
}
"""drivers/net/bonding/bond_main.c, by the keys of resources."""
LACP_DEFAULTS: dict[str, object] = {"adActorSysPrio": 65535}


class PlatformNetworkController(Reconciler):
    """MetaKey 0x0a → PlatformConfig, at once after each change; what networkd made of it goes with the value.

    The last network that could be read stays until there is another one.
    """

    name = BOOT_CONTROLLER
    inputs = (Input(kinds.META_KEY, KEY),)
    outputs = (Output(kinds.PLATFORM_CONFIG, shared=True),)

    def __init__(self, log: Log) -> None:
        self._log = log

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        value = await runtime.get_or_none(kinds.META_KEY, KEY)
        try:
            wanted = parse_network(value.spec.value if value else "")
        except UserError as error:
            self._log.once(f"the network in META is not used: {error}", key=KEY, level="error")
            return
        self._log.forget(KEY)

        def change(spec: PlatformConfigSpec) -> None:
            for name in _LISTS:
                spec.ClearField(name)
            spec.MergeFrom(wanted)
            if not spec.hostnames and spec.metadata.hostname:  # that of the kernel's arguments
                spec.hostnames.add(hostname=spec.metadata.hostname, config_layer=enums.CONFIG_PLATFORM)

        await runtime.modify(*ids.PLATFORM_CONFIG, change)


def parse_network(text: str) -> PlatformConfigSpec:
    """A network in the form of PlatformConfig resources, without the metadata in it. UserError."""
    where = f"META {KEY}"
    value = read_yaml(text, where)
    spec = PlatformConfigSpec()
    if value is not None:
        _complete_bonds(value)
        value_to_message(spec, value, where)
    spec.ClearField("metadata")
    return spec


def _complete_bonds(network: object) -> None:
    """Give bonds the kernel's defaults for what is left out, where 0 is another setting or none."""
    links = as_object(network).get("links")
    for link in cast("list[object]", links) if isinstance(links, list) else ():
        settings = as_object(as_object(link).get("bondMaster"))
        defaults = BOND_DEFAULTS | (LACP_DEFAULTS if settings.get("mode") == LACP else {})
        for key, default in defaults.items() if settings else ():
            settings.setdefault(key, default)
