"""Whether a config cuts off the caller who applies it, by what this node has of its links."""

from collections.abc import AsyncIterator

from talos.api.definitions import enums_pb2
from talos.api.metadata import CALLER, REACHED
from talos.api.rpc import Call
from talos.config.change.cut_off import find_cut_offs
from talos.config.effective.links import LinkUse
from talos.config.model import Config
from talos.resource import ids, kinds
from talos.resource.addresses import parse_interface
from talos.resource.state import State

_LAYERS = (enums_pb2.CONFIG_CMDLINE, enums_pb2.CONFIG_PLATFORM)
"""What stays whatever a config has."""
_VERSIONS = {enums_pb2.OPERATOR_DHCP4: 4, enums_pb2.OPERATOR_DHCP6: 6}


async def find_call_cut_offs(state: State, before: Config | None, config: Config, call: Call) -> list[str]:
    """What keeps the caller from calling again, by the addresses that apid has passed on."""
    [caller], [reached] = call.metadata.get(CALLER, ("",)), call.metadata.get(REACHED, ("",))
    if before is None or not config.is_complete or not (caller and reached):
        return []
    addresses = await state.list(kinds.ADDRESS_STATUS)
    links = (item.spec.link_name for item in addresses if item.id.split("/")[1] == reached)
    link = next(links, "")
    statuses = await state.list(kinds.LINK_STATUS)
    names = ((*item.spec.alt_names, item.spec.alias) for item in statuses if item.id == link)
    return find_cut_offs(
        before,
        config,
        caller=caller,
        reached=reached,
        link=link,
        names=next(names, ()),
        others=[use async for use in _find_other_uses(state)],
    )


async def _find_other_uses(state: State) -> AsyncIterator[LinkUse]:
    """What the platform and the kernel's command line give to links."""
    for address in await state.list(kinds.ADDRESS_SPEC, namespace=ids.NETWORK_CONFIG):
        if (spec := address.spec).config_layer in _LAYERS:
            yield LinkUse(name=spec.link_name, addresses=(parse_interface(spec.address).ip,))
    for operator in await state.list(kinds.OPERATOR_SPEC, namespace=ids.NETWORK_CONFIG):
        if (spec := operator.spec).config_layer in _LAYERS and spec.operator in _VERSIONS:
            yield LinkUse(name=spec.link_name, dhcp=frozenset({_VERSIONS[spec.operator]}))
