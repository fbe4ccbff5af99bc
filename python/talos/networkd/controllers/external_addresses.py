"""AddressStatus of addresses that lead to the node and are on none of its links, such as a cloud's."""

from ipaddress import ip_interface

from talos.api.addresses import make_host_prefix
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.networkd.platform import EXTERNAL_LINK, read_platform
from talos.resource import kinds
from talos.resource.addresses import family_of, make_address_id, parse_ip
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class ExternalAddressController(Reconciler):
    """PlatformConfig → AddressStatus, one for each external address."""

    name = "network.PlatformConfigExternalIPsController"
    inputs = (Input(kinds.PLATFORM_CONFIG),)
    outputs = (Output(kinds.ADDRESS_STATUS, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write those of the platform."""
        config = await read_platform(runtime)
        async with runtime.track_outputs():
            for address in filter(None, map(parse_ip, config.external_ips if config else ())):
                spec = AddressStatusSpec(
                    address=make_host_prefix(address),
                    link_name=EXTERNAL_LINK,
                    family=family_of(address),
                    scope=enums_pb2.SCOPE_GLOBAL,
                )
                address_id = make_address_id(EXTERNAL_LINK, ip_interface(address))
                await runtime.put(kinds.ADDRESS_STATUS, address_id, spec)
