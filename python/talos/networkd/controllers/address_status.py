"""AddressStatus: the addresses of the kernel."""

from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.networkd.addresses import family_of, make_address_id, make_ip, make_prefix, number
from talos.networkd.controllers.kernel import KernelReconciler
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Output
from talos.system.net.links import Address, AddressState, Topic


class AddressStatusController(KernelReconciler):
    """Writes one AddressStatus per address of each link."""

    name = "network.AddressStatusController"
    # Shared: a platform may add external addresses, which no link has.
    outputs = (Output(kinds.ADDRESS_STATUS, shared=True),)
    topics = Topic.ADDRESS | Topic.LINK

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the kernel's state."""
        names = {link.index: link.name for link in await self.links.links()}
        async with runtime.track_outputs():
            for address in await self.links.addresses():
                name = names.get(address.link_index)
                if name is None:
                    # The link went away between the two questions.
                    continue
                status = make_status(address, name)
                address_id = make_address_id(name, address.address)
                await runtime.put(kinds.ADDRESS_STATUS, address_id, status)


def make_status(address: AddressState, link: str) -> AddressStatusSpec:
    """An address as the API shows it."""
    status = AddressStatusSpec(
        address=make_prefix(address.address),
        link_index=address.link_index,
        link_name=link,
        family=family_of(address.address),
        scope=number(address.scope),
        flags=address.flags,
        priority=address.priority,
    )
    addresses: dict[str, Address | None] = {
        "local": address.local,
        "broadcast": address.broadcast,
        "anycast": address.anycast,
        "multicast": address.multicast,
    }
    for field, value in addresses.items():
        if value is not None:
            getattr(status, field).CopyFrom(make_ip(value))
    return status
