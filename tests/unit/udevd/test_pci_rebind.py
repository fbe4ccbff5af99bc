"""Another driver for a PCI device, on a folder that looks like the kernel's."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.lowlevel
from tests.unit.machined.controllers.running import running

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.udevd.pci_rebind import PciDriverRebindConfigController, PciDriverRebindController, rebind

DEVICE = "0000:00:04.0"
HEAD = "version: v1alpha1\nmachine: {type: worker}\n"
DOCUMENT = "---\napiVersion: v1alpha1\nkind: PCIDriverRebindConfig\nname: %s\ntargetDriver: vfio-pci\n"


class _Hub:
    def __init__(self) -> None:
        self.settled = trio.Event()
        self.settled.set()


def make_bus(folder: Path) -> Path:
    bus = folder / "pci"
    (bus / "devices" / DEVICE).mkdir(parents=True)
    (bus / "drivers/virtio-pci").mkdir(parents=True)
    (bus / "devices" / DEVICE / "driver").symlink_to(bus / "drivers/virtio-pci")
    return bus


@asynccontextmanager
async def running_bus(folder: Path) -> AsyncGenerator[tuple[MemoryState, Path, list[str]]]:
    state, bus, log = MemoryState(), make_bus(folder), list[str]()
    controller = PciDriverRebindController(cast("Any", _Hub()), Log(write=log.append), bus)
    async with running(state, PciDriverRebindConfigController(), controller):
        yield state, bus, log


async def configure(state: MemoryState, *documents: str) -> None:
    text = (HEAD + "".join(documents)).encode()
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text))


async def test_a_device_gets_another_driver_and_its_own_back(tmp_path: Path) -> None:
    async with running_bus(tmp_path) as (state, bus, _):
        await configure(state, DOCUMENT % DEVICE)
        status = await wait_for(state, kinds.PCI_DRIVER_REBIND_STATUS, DEVICE, lambda _: True)
        assert (status.spec.pciid, status.spec.target_driver) == (DEVICE, "vfio-pci")
        override = bus / "devices" / DEVICE / "driver_override"
        assert override.read_text() == "vfio-pci"
        assert (bus / "drivers/virtio-pci/unbind").read_text() == DEVICE
        assert (bus / "drivers_probe").read_text() == DEVICE
        await configure(state)
        while await state.list(kinds.PCI_DRIVER_REBIND_STATUS):
            await trio.lowlevel.checkpoint()
        assert override.read_text() == "\n"


async def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with running_bus(tmp_path) as (state, _, log):
        await configure(state, DOCUMENT % "0000:00:09.0", DOCUMENT % DEVICE)
        await wait_for(state, kinds.PCI_DRIVER_REBIND_STATUS, DEVICE, lambda _: True)
        assert any("0000:00:09.0" in line for line in log)
        assert [one.id for one in await state.list(kinds.PCI_DRIVER_REBIND_STATUS)] == [DEVICE]


@pytest.mark.parametrize("name", ["../../etc", "0000:00:09.0"])
def test_a_name_is_a_device_of_the_bus(tmp_path: Path, name: str) -> None:
    bus = make_bus(tmp_path)
    with pytest.raises(UserError):
        rebind(bus, name, "x")
