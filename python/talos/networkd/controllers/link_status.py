"""LinkStatus: the links of the kernel."""

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import LinkStatusSpec
from talos.networkd.addresses import number
from talos.networkd.controllers.kernel import KernelReconciler
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Output
from talos.system.net.links import LinkState, Topic

_UP_STATES = (enums_pb2.OPER_STATE_UP, enums_pb2.OPER_STATE_UNKNOWN)


class LinkStatusController(KernelReconciler):
    """Writes one LinkStatus per link, named after the link."""

    name = "network.LinkStatusController"
    outputs = (Output(kinds.LINK_STATUS),)
    topics = Topic.LINK

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the kernel's state."""
        async with runtime.track_outputs():
            for link in await self.links.links():
                status = make_status(link)
                await runtime.put(kinds.LINK_STATUS, link.name, status)


def make_status(link: LinkState) -> LinkStatusSpec:
    """A link as the API shows it."""
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
        bus_path=link.bus_path,
        link_state=link.carrier,
        port=enums_pb2.OTHER,
        duplex=enums_pb2.UNKNOWN,
        alias=link.alias,
        alt_names=link.alternative_names,
    )


def is_usable(status: LinkStatusSpec) -> bool:
    """Whether addresses of the link can be used: it is up and, if it is a device, has a carrier."""
    return status.operational_state in _UP_STATES and (status.link_state or not is_physical(status))


def is_physical(status: LinkStatusSpec) -> bool:
    """Whether the link is a device, or a hypervisor's idea of one."""
    return status.type == enums_pb2.LINK_ETHER and not status.kind
