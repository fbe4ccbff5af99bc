"""EthernetSpec, EthernetStatus: drivers' settings of Ethernet links; HardwareAddress of the first one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from google.protobuf.message import Message

from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import (
    EthernetChannelsStatus,
    EthernetFeatureStatus,
    EthernetRingsStatus,
    EthernetSpecSpec,
    EthernetStatusSpec,
    HardwareAddrSpec,
)
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.documents.network.ethernet import EthernetConfig
from talos.networkd.controllers.link_status import is_physical
from talos.resource import ids, kinds
from talos.resource.addresses import number
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log
from talos.system.net.driver_settings import DriverChange, RingOptions
from talos.system.net.ethtool import Counts, DriverState
from talos.system.net.links import LinkError, Links

WAKE_ON = {
    "phy": 1,
    "unicast": 2,
    "multicast": 4,
    "broadcast": 8,
    "magic": 32,
    "magicsecure": 64,
    "filter": 128,
}
"""Modes of wake-on-LAN by their names in configs, <linux/ethtool.h>."""


class EthernetConfigController(Reconciler):
    """MachineConfig → EthernetSpec, named after the link."""

    name = "network.EthernetConfigController"
    inputs = (*PARTIAL_CONFIG_INPUTS, Input(kinds.LINK_STATUS))
    outputs = (Output(kinds.ETHERNET_SPEC),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config; an alias stands for its link."""
        config = await read_partial_config(runtime)
        aliases = {
            alias: link.id
            for link in await runtime.list(kinds.LINK_STATUS)
            for alias in (*link.spec.alt_names, link.spec.alias)
        }
        async with runtime.track_outputs():
            for document in config.find_all(EthernetConfig) if config is not None else ():
                name = aliases.get(document.name, document.name)
                await runtime.put(kinds.ETHERNET_SPEC, name, make_spec(document))


class EthernetStatusController(Reconciler):
    """EthernetSpec, LinkStatus → EthernetStatus, one for each link of this kind, real or virtual.

    A driver is read again when its link or its spec has changed, and what differs from the spec is set.
    """

    name = "network.EthernetStatusController"
    inputs = (Input(kinds.LINK_STATUS), Input(kinds.ETHERNET_SPEC))
    outputs = (Output(kinds.ETHERNET_STATUS),)

    def __init__(self, links: Links, log: Log) -> None:
        self._links = links
        self._log = log
        self._known: dict[str, tuple[bytes, EthernetStatusSpec]] = {}
        """The status of each link, and of what it was made."""

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Query the drivers."""
        specs = {spec.id: spec.spec for spec in await runtime.list(kinds.ETHERNET_SPEC)}
        known, self._known = self._known, {}
        async with runtime.track_outputs():
            for link in await runtime.list(kinds.LINK_STATUS):
                if link.spec.type != enums_pb2.LINK_ETHER:
                    continue
                spec = specs.get(link.id)
                made_of = link.spec.SerializeToString(deterministic=True)
                made_of += spec.SerializeToString(deterministic=True) if spec is not None else b""
                entry = known.get(link.id)
                if entry is None or entry[0] != made_of:
                    entry = made_of, make_status(await self._update(link.id, spec))
                self._known[link.id] = entry
                await runtime.put(kinds.ETHERNET_STATUS, link.id, entry[1])

    async def _update(self, name: str, spec: EthernetSpecSpec | None) -> DriverState:
        state = await self._links.driver(name)
        for change in find_changes(spec, state) if spec is not None else ():
            try:
                await self._links.set_driver(name, change)
            except LinkError as error:
                # One setting that the driver refuses shall not keep the others from being set.
                self._log.once(f"EthernetConfig {name}: {change.describe()}: {error.strerror}")
            else:
                self._log.info(f"link {name}: {change.describe()}")
        return await self._links.driver(name) if spec is not None else state


def make_spec(document: EthernetConfig) -> EthernetSpecSpec:
    """The spec of a config."""
    spec = EthernetSpecSpec(features=document.features or {})
    for message, section in ((spec.rings, document.rings), (spec.channels, document.channels)):
        for field in fields(section) if section is not None else ():
            value = getattr(section, field.name)
            if value is not None:
                setattr(message, field.name, value)
    spec.wake_on_lan.extend(number(WAKE_ON[word]) for word in document.wake_on_lan or ())
    return spec


def find_changes(spec: EthernetSpecSpec, state: DriverState) -> list[DriverChange]:
    """What has to be set, one change for each setting that the driver may refuse on its own."""
    rings = _current(("rx", "rx_mini", "rx_jumbo", "tx"), state.rings)
    rings |= {field.name: getattr(state.ring_options, field.name) for field in fields(RingOptions)}
    channels = _current(("rx", "tx", "other", "combined"), state.channels)
    features = {feature.name: feature.is_active for feature in state.features}
    changes = [
        DriverChange(rings=_differing(spec.rings, rings)),
        DriverChange(channels=_differing(spec.channels, channels)),
    ]
    changes += [
        DriverChange(features={name: is_on})
        for name, is_on in sorted(spec.features.items())
        if features.get(name) is not is_on
    ]
    wanted = sum(int(mode) for mode in spec.wake_on_lan)
    if spec.wake_on_lan and wanted != state.wake_on:
        changes.append(DriverChange(wake_on=wanted))
    return [change for change in changes if change]


def _differing(spec: Message, current: Mapping[str, int]) -> dict[str, int]:
    return {field.name: value for field, value in spec.ListFields() if current.get(field.name) != value}


def _current(names: Sequence[str], counts: Counts | None) -> dict[str, int]:
    return dict(zip(names, counts.current, strict=True)) if counts is not None else {}


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
        status.rings.CopyFrom(_make_rings(state.rings, state.ring_options))
    if state.channels is not None:
        status.channels.CopyFrom(_make_channels(state.channels))
    return status


def _make_rings(rings: Counts, options: RingOptions) -> EthernetRingsStatus:
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
        **asdict(options),
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
