"""Devices in the State: controllers publish the hub's table of devices.

**Discovery on request.** The kernel announces a changed partition table, but not when something
was written into a partition. Code that writes to disks (mkfs, META, wipe) raises the number in
``DiscoveryRefreshRequest`` ``refresh`` by one and waits until ``DiscoveryRefreshStatus`` ``refresh``
has the same number or a larger one: then every disk was read after the request, and Disks, BlockDevices,
BlockSymlinks and DiscoveredVolumes describe what was found. Numbers may be skipped: several requests that
arrived meanwhile are acknowledged by one rescan.
"""

from collections.abc import Iterable

import trio
from google.protobuf.message import Message

from talos.api.definitions.block_pb2 import DiscoveryRefreshStatusSpec, SymlinkSpec
from talos.api.definitions.runtime_pb2 import DevicesStatusSpec
from talos.config.udev_rules import parse_rules
from talos.resource import ids, kinds
from talos.resource.controller.controller import (
    Controller,
    ControllerRuntime,
    Input,
    Output,
    Reconciler,
)
from talos.resource.kind import Kind
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.udevd.blocks import Block
from talos.udevd.hub import Hub
from talos.udevd.pci_rebind import PciDriverRebindConfigController, PciDriverRebindController
from talos.udevd.specs import make_card, make_device, make_disk, make_volume


class DeviceReconciler(Reconciler):
    """Reconciles once the devices have settled, and whenever one changes."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow hub and inputs."""
        await self.hub.settled.wait()
        unsubscribe = self.hub.subscribe(runtime.queue_reconcile)
        try:
            await super().run(runtime)
        finally:
            unsubscribe()


async def publish[S: Message](
    runtime: ControllerRuntime, kind: Kind[S], specs: Iterable[tuple[str, S]]
) -> None:
    """Make a kind's resources exactly these; concurrently, as each call waits for a loaded PID 1 at boot."""
    async with runtime.track_outputs(kind), trio.open_nursery() as nursery:
        for name, spec in specs:
            nursery.start_soon(runtime.put, kind, name, spec)


async def publish_content(hub: Hub, runtime: ControllerRuntime) -> None:
    """Publish what the installer and volumes wait for; disks before the volumes on them."""
    usable = _usable(hub)
    links = hub.devices.links
    disks = {name: block for name, block in usable.items() if block.disk is None}
    await publish(
        runtime,
        kinds.DISK,
        ((name, make_disk(block, links.paths_of(block.node))) for name, block in disks.items()),
    )
    await publish(runtime, kinds.DISCOVERED_VOLUME, ((name, make_volume(usable[name])) for name in usable))


async def publish_devices(hub: Hub, runtime: ControllerRuntime) -> None:
    """Block devices and the links to them."""
    usable = _usable(hub)
    generations, links = dict(hub.devices.generations), hub.devices.links
    await publish(
        runtime,
        kinds.BLOCK_DEVICE,
        ((name, make_device(block, generations.get(name, 1))) for name, block in usable.items()),
    )
    paths = {name: links.paths_of(block.node) for name, block in usable.items()}
    await publish(
        runtime,
        kinds.BLOCK_SYMLINK,
        ((name, SymlinkSpec(paths=found)) for name, found in paths.items() if found),
    )


def _usable(hub: Hub) -> dict[str, Block]:
    """Copies: a thread may change the table meanwhile."""
    blocks = dict(hub.devices.blocks)
    return {name: blocks[name] for name in sorted(blocks) if blocks[name].is_usable}


class DiscoveryController(DeviceReconciler):
    """Block devices, disks, links and what is on them; rescans on request."""

    name = "block.DiscoveryController"
    inputs = (Input(*ids.DISCOVERY_REFRESH_REQUEST),)
    outputs = (
        Output(kinds.BLOCK_DEVICE),
        Output(kinds.BLOCK_SYMLINK),
        Output(kinds.DISK),
        Output(kinds.DISCOVERED_VOLUME),
        Output(kinds.DISCOVERY_REFRESH_STATUS),
        Output(kinds.DEVICES_STATUS),
    )

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._answered = 0

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Publish; acknowledge a request after a rescan."""
        request = await runtime.get_or_none(*ids.DISCOVERY_REFRESH_REQUEST)
        requested = request.spec.request if request is not None else 0
        if requested > self._answered:
            await self.hub.rescan()
        await publish_content(self.hub, runtime)
        await runtime.put(*ids.DEVICES_STATUS, DevicesStatusSpec(ready=True))
        self.hub.announced.set()
        await publish_devices(self.hub, runtime)
        if requested > self._answered:
            self._answered = requested
            answer = DiscoveryRefreshStatusSpec(request=requested)
            await runtime.put(*ids.DISCOVERY_REFRESH_STATUS, answer)


class PciDevicesController(DeviceReconciler):
    """Every device on the PCI bus, by its address."""

    name = "hardware.PCIDevicesController"
    outputs = (Output(kinds.PCI_DEVICE),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Publish once what a boot waits for is published."""
        await self.hub.announced.wait()
        cards = dict(self.hub.devices.cards)
        await publish(runtime, kinds.PCI_DEVICE, ((name, make_card(cards[name])) for name in sorted(cards)))


class UdevRulesController(Reconciler):
    """Takes the rules of the config; changed rules are applied to all devices at once."""

    name = "runtime.UdevRulesController"
    inputs = (Input(*ids.MACHINE_CONFIG),)

    def __init__(self, hub: Hub, log: Log) -> None:
        self._hub = hub
        self._log = log

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config; rules that can't be read leave those in effect that are."""
        await self._hub.settled.wait()
        resource = await runtime.get_or_none(*ids.MACHINE_CONFIG)
        texts: tuple[str, ...] = ()
        if resource is not None:
            texts = await trio.to_thread.run_sync(read_rules, resource.spec.yaml_marshalled)
        try:
            rules = parse_rules(texts)
        except UserError as error:
            self._log.warning(f"udev rules are not used: {error}")
            return
        await self._hub.set_rules(rules)


def read_rules(config: bytes) -> tuple[str, ...]:
    """The rules in a config. What reads configs is large and not needed at the start: it is loaded here."""
    from talos.config.active import parse_active
    from talos.config.effective import machine as effective

    return effective.udev_rules(parse_active(config))


def make_controllers(hub: Hub, log: Log) -> list[Controller]:
    """Every controller of this daemon."""
    return [
        DiscoveryController(hub),
        PciDevicesController(hub),
        UdevRulesController(hub, log),
        PciDriverRebindConfigController(),
        PciDriverRebindController(hub, log),
    ]
