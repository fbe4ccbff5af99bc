"""AddressSpec: addresses applied to the kernel."""

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import AddressSpecSpec
from talos.networkd.controllers.kernel import KernelReconciler
from talos.resource import kinds
from talos.resource.addresses import parse_interface
from talos.resource.controller.controller import ControllerRuntime, Input, InputStrength
from talos.resource.resource import Phase
from talos.system.net.links import AddressState, Topic

# Flags that may be set; the kernel determines the others.
_OURS = (
    enums_pb2.ADDRESS_NO_DAD
    | enums_pb2.ADDRESS_OPTIMISTIC
    | enums_pb2.ADDRESS_HOME
    | enums_pb2.ADDRESS_MANAGEMENT_TEMP
    | enums_pb2.ADDRESS_NO_PREFIX_ROUTE
    | enums_pb2.ADDRESS_STABLE_PRIVACY
)


class AddressSpecController(KernelReconciler):
    """Adds addresses that are missing, and removes those whose spec is removed, no others."""

    name = "network.AddressSpecController"
    inputs = (Input(kinds.ADDRESS_SPEC, strength=InputStrength.STRONG),)
    topics = Topic.LINK | Topic.ADDRESS

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Apply the differences."""
        indexes = {link.name: link.index for link in await self.links.links()}
        present = {(item.link_index, item.address) for item in await self.links.addresses()}
        for resource in await runtime.list(kinds.ADDRESS_SPEC):
            spec, index = resource.spec, indexes.get(resource.spec.link_name)
            if resource.metadata.phase is Phase.TEARING_DOWN:
                if index is not None:
                    self.log.info(f"address {resource.id} removed")
                    removal = self.links.remove_address(make_state(spec, index))
                    await self.attempt(f"removing address {resource.id}", removal)
                await runtime.remove_finalizer(kinds.ADDRESS_SPEC, resource.id)
                continue
            if not await self.hold(runtime, kinds.ADDRESS_SPEC, resource):
                continue
            if index is None or (index, parse_interface(spec.address)) in present:
                continue
            added = self.links.add_address(make_state(spec, index))
            if await self.attempt(f"address {resource.id}", added):
                self.log.info(f"address {resource.id} added")
                if spec.announce_with_arp:
                    await self._announce(spec)

    async def _announce(self, spec: AddressSpecSpec) -> None:
        """Announce the address: other machines may still send to the one that had it before."""
        try:
            await self.links.announce(spec.link_name, parse_interface(spec.address).ip)
        except OSError as error:
            self.log.warning(f"{parse_interface(spec.address).ip} is not announced: {error.strerror}")


def make_state(spec: AddressSpecSpec, link_index: int) -> AddressState:
    """The address as the request to the kernel."""
    return AddressState(
        link_index=link_index,
        address=parse_interface(spec.address),
        scope=int(spec.scope),
        flags=spec.flags & _OURS,
        priority=spec.priority,
    )
