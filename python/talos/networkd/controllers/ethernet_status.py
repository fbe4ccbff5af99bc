"""EthernetStatus: drivers' settings of Ethernet links; HardwareAddress of the first one."""

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    EthernetChannelsStatus,
    EthernetFeatureStatus,
    EthernetRingsStatus,
    EthernetStatusSpec,
    HardwareAddrSpec,
)
from talos.networkd.addresses import number
from talos.networkd.controllers.link_status import is_physical
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.net.ethtool import Counts, DriverState
from talos.system.net.links import Links


class EthernetStatusController(Reconciler):
    """LinkStatus → EthernetStatus, one for each link of this kind, real or virtual."""

    name = "network.EthernetStatusController"
    inputs = (Input(kinds.LINK_STATUS),)
    outputs = (Output(kinds.ETHERNET_STATUS),)

    def __init__(self, links: Links) -> None:
        self._links = links

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Query the drivers."""
        async with runtime.track_outputs():
            for link in await runtime.list(kinds.LINK_STATUS):
                if link.spec.type == enums_pb2.LINK_ETHER:
                    status = make_status(await self._links.driver(link.id))
                    await runtime.put(kinds.ETHERNET_STATUS, link.id, status)


def make_status(state: DriverState) -> EthernetStatusSpec:
    """A driver's state as the API shows it."""
    status = EthernetStatusSpec(
        link_state=state.has_link,
        speed_megabits=state.speed,
        port=number(state.port),
        duplex=number(state.duplex),
        our_modes=state.own_modes,
        peer_modes=state.peer_modes,
        wake_on_lan=[number(1 << bit) for bit in range(8) if state.wake_on >> bit & 1],
        features=[
            EthernetFeatureStatus(
                name=feature.name,
                status=("on" if feature.is_active else "off") + (" [fixed]" if feature.is_fixed else ""),
            )
            for feature in state.features
        ],
    )
    if state.rings is not None:
        status.rings.CopyFrom(_make_rings(state.rings))
    if state.channels is not None:
        status.channels.CopyFrom(_make_channels(state.channels))
    return status


def _make_rings(rings: Counts) -> EthernetRingsStatus:
    rx_max, mini_max, jumbo_max, tx_max = rings.maximum
    rx, mini, jumbo, tx = rings.current
    return EthernetRingsStatus(
        rx_max=rx_max,
        rx_mini_max=mini_max,
        rx_jumbo_max=jumbo_max,
        tx_max=tx_max,
        rx=rx,
        rx_mini=mini,
        rx_jumbo=jumbo,
        tx=tx,
    )


def _make_channels(channels: Counts) -> EthernetChannelsStatus:
    rx_max, tx_max, other_max, combined_max = channels.maximum
    rx, tx, other, combined = channels.current
    return EthernetChannelsStatus(
        rx_max=rx_max,
        tx_max=tx_max,
        other_max=other_max,
        combined_max=combined_max,
        rx=rx,
        tx=tx,
        other=other,
        combined=combined,
    )


class HardwareAddrController(Reconciler):
    """LinkStatus → HardwareAddress: that of the first device.

    A container has no device, but one end of a virtual cable, which takes its place.
    """

    name = "network.HardwareAddrController"
    inputs = (Input(kinds.LINK_STATUS),)
    outputs = (Output(kinds.HARDWARE_ADDRESS),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Choose the first device."""
        links = [
            link
            for link in await runtime.list(kinds.LINK_STATUS)
            if is_physical(link.spec) or link.spec.kind == "veth"
        ]
        links.sort(key=lambda link: not is_physical(link.spec))
        async with runtime.track_outputs():
            for link in links[:1]:
                spec = HardwareAddrSpec(name=link.id, hardware_addr=link.spec.hardware_addr)
                await runtime.put(*ids.HARDWARE_ADDRESS_FIRST, spec)
