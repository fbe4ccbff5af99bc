"""udevd against a State: settle, discovery on request, rules of the config, the resources."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from tests.unit.udevd.fake_sysfs import FakeSysfs, add_pci
from tests.unit.udevd.test_devices import GPT, XFS, World
from tests.unit.udevd.test_pci_names import PCI_IDS

from talos.api.definitions.block_pb2 import DiscoveryRefreshRequestSpec
from talos.api.definitions.hardware_pb2 import PCIDeviceSpec
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.net.uevents import EventsLostError, Uevent
from talos.system.proc.cmdline import parse_cmdline
from talos.udevd import specs
from talos.udevd.controllers import make_controllers
from talos.udevd.hub import Hub
from talos.udevd.main import parse_settle_time
from talos.udevd.pci_names import find_names


class FakeUevents:
    """Events that a test makes."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Sequence[Uevent] | None](100)

    def send(self, *events: Uevent) -> None:
        self._send.send_nowait(events)

    def lose(self) -> None:
        self._send.send_nowait(None)

    async def receive(self) -> Sequence[Uevent]:
        events = await self._receive.receive()
        if events is None:
            raise EventsLostError("No buffer space available")
        return events


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "dev").mkdir()
    return World(FakeSysfs(tmp_path / "sys"), tmp_path / "dev")


lines: list[str] = []


@asynccontextmanager
async def running(world: World, uevents: FakeUevents) -> AsyncGenerator[MemoryState]:
    state = MemoryState()
    hub = Hub(world.devices, uevents)
    lines.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hub.run)
        await nursery.start(run_controllers, state, make_controllers(hub, Log(write=lines.append)))
        await wait_for(state, *ids.DEVICES_STATUS, lambda status: status.spec.ready)
        yield state
        nursery.cancel_scope.cancel()


async def test_resources_of_devices(world: World) -> None:
    disk = world.virtio_disk("vda", 5, serial="root")
    world.fake.partition(disk, 2, 82)
    world.node("vda2")
    world.contents |= {"vda": GPT, "vda2": XFS}
    async with running(world, FakeUevents()) as state:
        found = (await state.get(kinds.DISK, "vda")).spec
        assert (found.dev_path, found.size, found.pretty_size) == ("/dev/vda", 20971520 * 512, "11 GB")
        assert (found.transport, found.serial, found.bus_path) == (
            "virtio",
            "root",
            "/pci0000:00/0000:00:05.0/virtio5",
        )
        assert list(found.symlinks) == ["/dev/disk/by-id/virtio-root", "/dev/disk/by-path/pci-0000:00:05.0"]
        assert [resource.id for resource in await state.list(kinds.DISK)] == ["vda"]
        volume = (await state.get(kinds.DISCOVERED_VOLUME, "vda2")).spec
        assert (volume.type, volume.name, volume.label, volume.partition_label) == (
            "partition",
            "xfs",
            "STATE",
            "STATE",
        )
        assert (volume.parent, volume.parent_dev_path, volume.partition_index) == ("vda", "/dev/vda", 2)
        assert (await state.get(kinds.DISCOVERED_VOLUME, "vda")).spec.name == "gpt"
        device = (await wait_for(state, kinds.BLOCK_DEVICE, "vda2", lambda _: True)).spec
        assert (device.type, device.parent, device.partition_number) == ("partition", "vda", 2)
        links = (await wait_for(state, kinds.BLOCK_SYMLINK, "vda2", lambda _: True)).spec.paths
        assert "/dev/disk/by-partlabel/STATE" in links


async def test_pci_devices(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs, "find_names", partial(find_names, file=PCI_IDS))
    add_pci(world.fake, "0000:00:02.0", **{"class": "0x020000"})
    async with running(world, FakeUevents()) as state:
        found = await wait_for(state, kinds.PCI_DEVICE, "0000:00:02.0", lambda _: True)
        wanted = {"class": "Network controller", "subclass": "Ethernet controller"}
        assert found.spec == PCIDeviceSpec(
            vendor="Intel Corporation",
            product="82574L Gigabit Network Connection",
            class_id="0x02",
            subclass_id="0x00",
            vendor_id="0x8086",
            product_id="0x10d3",
            **wanted,
        )


async def test_discovery_on_request(world: World) -> None:
    world.virtio_disk("vda", 5)
    async with running(world, FakeUevents()) as state:
        assert (await state.get(kinds.DISCOVERED_VOLUME, "vda")).spec.name == ""
        world.contents["vda"] = XFS

        def request(spec: DiscoveryRefreshRequestSpec) -> None:
            spec.request = 7

        await modify(state, *ids.DISCOVERY_REFRESH_REQUEST, request)
        await wait_for(state, *ids.DISCOVERY_REFRESH_STATUS, lambda status: status.spec.request == 7)
        assert (await state.get(kinds.DISCOVERED_VOLUME, "vda")).spec.name == "xfs"


async def test_disks_come_and_go(world: World) -> None:
    uevents = FakeUevents()
    async with running(world, uevents) as state:
        disk = world.virtio_disk("vdb", 6)
        uevents.send(Uevent(action="add", path=disk.path, subsystem="block"))
        await wait_for(state, kinds.DISK, "vdb", lambda _: True)
        world.fake.remove(disk)
        uevents.send(Uevent(action="remove", path=disk.path, subsystem="block"))
        while await state.list(kinds.DISK):
            await trio.testing.wait_all_tasks_blocked(0.01)
        world.virtio_disk("vdc", 7)
        uevents.lose()
        await wait_for(state, kinds.DISK, "vdc", lambda _: True)


async def test_ready_waits_for_usb_disks(world: World, autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    card = add_pci(world.fake, "0000:00:14.0")
    interface = f"{card}/usb1/1-1/1-1:1.0"
    world.fake.add(interface, "usb", {"DEVTYPE": "usb_interface"}, driver="usb-storage")
    uevents = FakeUevents()
    begin = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def appear() -> None:
            await trio.sleep(1.5)
            world.node("sda")
            disk = world.fake.disk(f"{interface}/host1/target1:0:0/1:0:0:0/block/sda", 0)
            uevents.send(Uevent(action="add", path=disk.path, subsystem="block"))

        nursery.start_soon(appear)
        async with running(world, uevents) as state:
            assert [disk.id for disk in await state.list(kinds.DISK)] == ["sda"]
            assert 1.5 <= trio.current_time() - begin < 5


async def test_rules_of_the_config(world: World) -> None:
    world.virtio_disk("vda", 5)
    head = "apiVersion: v1alpha1\nkind: UdevRulesConfig\nrules:\n"

    async with running(world, FakeUevents()) as state:

        async def use(rule: str) -> None:
            text = f"{head}    - {rule}\n".encode()
            await modify(state, *ids.MACHINE_CONFIG, lambda spec: setattr(spec, "yaml_marshalled", text))

        await use('KERNEL=="vda", MODE="0604"')
        while (world.dev / "vda").stat().st_mode & 0o777 != 0o604:
            await trio.testing.wait_all_tasks_blocked(0.01)
        await use('KERNEL=="vda", RUN="/x"')
        while not lines:
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert "RUN is not supported" in lines[0]
        await use('KERNEL=="none", MODE="0604"')
        while (world.dev / "vda").stat().st_mode & 0o777 != 0o660:
            await trio.testing.wait_all_tasks_blocked(0.01)


def test_settle_time() -> None:
    lines: list[str] = []
    log = Log(write=lines.append)
    assert parse_settle_time(parse_cmdline("quiet"), log) == 0.0
    assert parse_settle_time(parse_cmdline("talos.device.settle_time=1m30s"), log) == 90.0
    assert parse_settle_time(parse_cmdline("talos.device.settle_time=soon"), log) == 0.0
    assert "settle_time" in lines[0]
    assert "soon" in lines[0]
