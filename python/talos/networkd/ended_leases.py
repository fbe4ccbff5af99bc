"""Leases that the machine config ends: before it is read, links without config request addresses."""

from collections.abc import Set as AbstractSet

from talos.networkd.controllers.config_layers import SOURCES, read_sources
from talos.networkd.controllers.operator_spec import LAYER, OperatorSpecController
from talos.networkd.layers import CONFIG_NAMESPACE, layered_id
from talos.resource import kinds
from talos.resource.addresses import operator_id, parse_interface
from talos.resource.controller.controller import ControllerRuntime, Input
from talos.system.net.links import Interface

INPUTS = (*SOURCES, Input(kinds.ADDRESS_SPEC, namespace=CONFIG_NAMESPACE))
"""What :meth:`EndedLeases.find` reads."""

type LinkAddress = tuple[str, Interface]


class EndedLeases:
    """Remembers addresses from the moment at which their lease is to end until the kernel has none of them.

    The specs are gone before that: they show when an address begins to leave, not when it has left.
    """

    def __init__(self) -> None:
        self._leaving: set[LinkAddress] = set()

    async def find(self, runtime: ControllerRuntime, present: AbstractSet[LinkAddress]) -> set[LinkAddress]:
        """Those of the kernel's addresses that the config in force ends."""
        sources = await read_sources(runtime)
        wanted = tuple(f"{layered_id(LAYER, operator_id(spec))}/" for spec in sources.operators)
        staying: set[LinkAddress] = set()
        for resource in await runtime.list(kinds.ADDRESS_SPEC, namespace=CONFIG_NAMESPACE):
            address = resource.spec.link_name, parse_interface(resource.spec.address)
            is_lease = resource.metadata.owner == OperatorSpecController.name
            if is_lease and address[0] in sources.links and not resource.id.startswith(wanted):
                self._leaving.add(address)
            else:
                staying.add(address)
        self._leaving = (self._leaving & present) - staying
        return self._leaving
