"""LinkStatus: the links of the kernel."""

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import LinkStatusSpec
from talos.networkd.controllers.kernel import KernelReconciler
from talos.networkd.link_attributes import show_settings
from talos.networkd.wireguard import make_wireguard_status
from talos.resource import kinds
from talos.resource.addresses import number
from talos.resource.controller.controller import ControllerRuntime, Output
from talos.system.logging import Log
from talos.system.net.ethtool import Identity
from talos.system.net.links import ARPHRD_LOOPBACK, LinkError, Links, LinkState, Topic

_UP_STATES = (enums_pb2.OPER_STATE_UP, enums_pb2.OPER_STATE_UNKNOWN)

type _Version = tuple[str, int, int, bool]


class LinkStatusController(KernelReconciler):
    """Writes one LinkStatus per link, named after the link."""

    name = "network.LinkStatusController"
    outputs = (Output(kinds.LINK_STATUS),)
    topics = Topic.LINK

    def __init__(self, links: Links, log: Log) -> None:
        super().__init__(links, log)
        self._identities: dict[int, tuple[_Version, Identity]] = {}
        """What the drivers answered, by the link's index, and for which state of the link."""

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the kernel's state."""
        links = await self.links.links()
        names = {link.index: link.name for link in links}
        for index in self._identities.keys() - names.keys():
            del self._identities[index]
        async with runtime.track_outputs():
            for link in links:
                status = make_status(link, await self._identify(link))
                show_settings(status, link, names.get(link.parent_index, ""))
                if link.kind == "wireguard":
                    await self._show_wireguard(status, link)
                await runtime.put(kinds.LINK_STATUS, link.name, status)

    async def _identify(self, link: LinkState) -> Identity:
        """The driver's answers; they change with the carrier, if at all, and a request takes a thread."""
        version = link.name, link.flags, link.operational_state, link.carrier
        known = self._identities.get(link.index)
        if link.type == ARPHRD_LOOPBACK or (known is not None and known[0] == version):
            return known[1] if known is not None else Identity()
        identity = await self.links.identity(link.name)
        self._identities[link.index] = version, identity
        return identity

    async def _show_wireguard(self, status: LinkStatusSpec, link: LinkState) -> None:
        try:
            state = await self.links.wireguard(link.name)
        except LinkError:
            # The link is gone, or the kernel lacks WireGuard.
            return
        status.wireguard.CopyFrom(make_wireguard_status(state))


def make_status(link: LinkState, identity: Identity) -> LinkStatusSpec:
    """A link as the API shows it."""
    vendor, _, product = identity.pci.lower().partition(":")
    return LinkStatusSpec(
        index=link.index,
        type=number(link.type),
        link_index=link.parent_index,
        flags=link.flags,
        hardware_addr=link.hardware_address,
        permanent_addr=link.permanent_address,
        broadcast_addr=link.broadcast_address,
        mtu=link.mtu,
        queue_disc=link.queue_disc,
        master_index=link.master_index,
        operational_state=number(link.operational_state),
        kind=link.kind,
        slave_kind=link.slave_kind,
        bus_path=identity.bus_path or link.bus_path,
        pciid=identity.pci,
        driver=identity.driver,
        driver_version=identity.version,
        firmware_version=identity.firmware,
        vendor_id=f"0x{vendor}" if vendor else "",
        product_id=f"0x{product}" if product else "",
        link_state=link.carrier,
        speed_megabits=identity.speed,
        port=number(identity.port),
        duplex=number(identity.duplex),
        alias=link.alias,
        alt_names=link.alternative_names,
    )


def is_usable(status: LinkStatusSpec) -> bool:
    """Whether addresses of the link can be used: it is up and, if it is a device, has a carrier."""
    return status.operational_state in _UP_STATES and (status.link_state or not is_physical(status))


def is_physical(status: LinkStatusSpec) -> bool:
    """Whether the link is a network card, real or emulated."""
    return status.type == enums_pb2.LINK_ETHER and not status.kind
