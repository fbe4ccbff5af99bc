"""The node's addresses under the machine config in force.

Until a node has read its config its links request addresses by DHCP, and get those that routers advertise.
What starts only once with an address, and what shows it to others, takes one of those that are there when the
config has taken effect.
"""

from talos.api.definitions.network_pb2 import NodeAddressSpec
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime

CONFIG_VERSION = "talos.dev/config-version"
"""Annotation of each NodeAddress: the version of the machine config that has taken effect on the addresses.

Not there while an address of a lease that it ends is left, while a link has none of those that it gives the
link, and while there is no config.
"""


async def read_addresses(
    runtime: ControllerRuntime, resource: ids.Singleton[NodeAddressSpec]
) -> NodeAddressSpec | None:
    """One of the lists of addresses; None until the machine config in force has taken effect on it.

    The list and ``ids.MACHINE_CONFIG`` are inputs of the caller.
    """
    config = await runtime.get_or_none(*ids.MACHINE_CONFIG)
    addresses = await runtime.get_or_none(*resource)
    if config is None or addresses is None:
        return None
    version = addresses.metadata.annotations.get(CONFIG_VERSION)
    return addresses.spec if version == str(config.metadata.version) else None
