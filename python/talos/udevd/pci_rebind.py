"""Another driver for a PCI device, such as vfio-pci for one that a virtual machine gets."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import override

import trio

from talos.api.definitions.hardware_pb2 import PCIDriverRebindConfigSpec, PCIDriverRebindStatusSpec
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.udevd.hub import Hub

BUS = Path("/sys/bus/pci")
_NO_DRIVER = "\n"
"""As an override: the kernel chooses again."""


class PciDriverRebindConfigController(Reconciler):
    """MachineConfig → PCIDriverRebindConfig, one for each document."""

    name = "hardware.PCIDriverRebindConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.PCI_DRIVER_REBIND_CONFIG),)

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        resource = await runtime.get_or_none(*ids.MACHINE_CONFIG)
        drivers: Mapping[str, str] = {}
        if resource is not None:
            drivers = await trio.to_thread.run_sync(read_drivers, resource.spec.yaml_marshalled)
        async with runtime.track_outputs():
            for device, driver in drivers.items():
                spec = PCIDriverRebindConfigSpec(pciid=device, target_driver=driver)
                await runtime.put(kinds.PCI_DRIVER_REBIND_CONFIG, device, spec)


class PciDriverRebindController(Reconciler):
    """PCIDriverRebindConfig → the device's driver, PCIDriverRebindStatus."""

    name = "hardware.PCIDriverRebindController"
    inputs = (Input(kinds.PCI_DRIVER_REBIND_CONFIG),)
    outputs = (Output(kinds.PCI_DRIVER_REBIND_STATUS),)

    def __init__(self, hub: Hub, log: Log, bus: Path = BUS) -> None:
        self._hub, self._log, self._bus = hub, log, bus
        self._bound: dict[str, str] = {}

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        await self._hub.settled.wait()
        wanted = await runtime.list(kinds.PCI_DRIVER_REBIND_CONFIG)
        found = {item.id: item.spec.target_driver for item in wanted}
        for device in self._bound.keys() - found.keys():
            await self._bind(device, _NO_DRIVER)
        for device, driver in found.items():
            if self._bound.get(device) != driver:
                await self._bind(device, driver)
        async with runtime.track_outputs():
            for device, driver in self._bound.items():
                spec = PCIDriverRebindStatusSpec(pciid=device, target_driver=driver)
                await runtime.put(kinds.PCI_DRIVER_REBIND_STATUS, device, spec)

    async def _bind(self, device: str, driver: str) -> None:
        # A driver may take its time with a device.
        try:
            bound = await trio.to_thread.run_sync(rebind, self._bus, device, driver)
        except (OSError, UserError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._log.once(f"{device} gets no other driver: {reason}", key=device, level="error")
            self._bound.pop(device, None)
            return
        if driver == _NO_DRIVER:
            self._bound.pop(device, None)
            self._log.info("a PCI device has the kernel's choice again", device=device, driver=bound)
            return
        self._bound[device] = driver
        if bound == driver:
            self._log.info("a PCI device has another driver", device=device, driver=driver)
        else:
            self._log.warning("a PCI device has another driver than wanted", device=device, driver=bound)


def rebind(bus: Path, device: str, driver: str) -> str:
    """Have a device bound to a driver; which one it has then, empty for none. UserError, OSError."""
    folder = bus / "devices" / device
    if "/" in device or not folder.is_dir():
        raise UserError("there is no such PCI device")
    (folder / "driver_override").write_text(driver, encoding="ascii")
    with suppress(FileNotFoundError):  # it has none
        (folder / "driver/unbind").write_text(device, encoding="ascii")
    (bus / "drivers_probe").write_text(device, encoding="ascii")
    link = folder / "driver"
    return link.resolve().name if link.is_symlink() else ""


def read_drivers(config: bytes) -> Mapping[str, str]:
    """The drivers in a config by device. What reads configs is large and loaded when it is needed."""
    from talos.config.active import parse_active
    from talos.config.effective import machine as effective

    return effective.pci_drivers(parse_active(config))
