"""Configs from where a platform keeps them: a volume, a nocloud seed."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, override

import pytest
import trio
import trio.testing
from google.protobuf.message import Message

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import LinkStatusSpec
from talos.machined.node.resources import describe_machine
from talos.machined.platform.config_sources.platform import PlatformSource
from talos.machined.platform.config_sources.volume import VolumeSource
from talos.machined.platform.config_sources.web import WebSource
from talos.machined.platform.platform import MetalPlatform
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.kind import Kind
from talos.resource.memory.state import MemoryState
from talos.resource.state import EventStream
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.mounts import MountPoint
from talos.system.proc.cmdline import parse_cmdline
from talos.testing.mounts import MemoryMounts

NETWORK = b"""\
version: 2
ethernets:
  a: {match: {macaddress: "02:00:00:00:00:01"}, addresses: [10.0.0.5/24]}
  b: {match: {macaddress: "02:00:00:00:00:02"}, addresses: [10.1.0.5/24]}
"""


class WatchedState(MemoryState):
    """Records when a caller waits for network cards."""

    def __init__(self) -> None:
        super().__init__()
        self.watched = trio.Event()

    @override
    @asynccontextmanager
    async def watch[S: Message](
        self, kind: Kind[S], *args: Any, **options: Any
    ) -> AsyncGenerator[EventStream[S]]:
        async with super().watch(kind, *args, **options) as events:
            if kind.type == kinds.LINK_STATUS.type:
                self.watched.set()
            yield events


@dataclass
class Volumes(MemoryMounts):
    """Mounts that show files."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def mount(self, point: MountPoint) -> None:
        super().mount(point)
        assert "ro" in point.options
        for name, data in self.files.items():
            Path(point.target, name).write_bytes(data)

    def unmount(self, target: str, *, lazy: bool = False) -> None:
        super().unmount(target, lazy=lazy)
        for path in Path(target).iterdir():
            path.unlink()


@dataclass
class Machine:
    """A machine on metal, with a volume that may be attached."""

    folder: Path
    cmdline: str
    name: str = "metal"
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    state: MemoryState = field(default_factory=MemoryState)
    reported: list[str] = field(default_factory=list[str])
    warned: list[str] = field(default_factory=list[str])

    async def load(self) -> bytes:
        """Load the config; what goes on after that is ended."""
        async with trio.open_nursery() as background:
            text = await self.load_with(background)
            background.cancel_scope.cancel()
        return text

    async def load_with(self, background: trio.Nursery) -> bytes:
        platform = MetalPlatform(arguments=parse_cmdline(self.cmdline), name=self.name)
        await describe_machine(
            self.state, files=KernelFiles(), node_id="a", cmdline="", platform=platform.load_network()
        )
        mounts = Volumes(files=self.files)
        source = PlatformSource(
            platform=platform,
            state=self.state,
            files=KernelFiles(),
            web=WebSource(state=self.state, files=KernelFiles(), report=self.reported.append, inform=print),
            volume=VolumeSource(
                state=self.state, mounts=mounts, report=self.reported.append, place=self.folder / "place"
            ),
            warn=self.warned.append,
            background=background,
        )
        text = await source.load()
        assert mounts.mounts == []
        return text

    async def attach(self, label: str, filesystem: str = "iso9660") -> None:
        def change(spec: Any) -> None:
            spec.label, spec.name, spec.dev_path = label, filesystem, "/dev/sr0"

        await modify(self.state, kinds.DISCOVERED_VOLUME, "sr0", change)
        await modify(self.state, *ids.DEVICES_STATUS, lambda spec: setattr(spec, "ready", True))

    async def show_card(self, name: str, last: int, *, permanent: int = 0) -> None:
        """Make a network card known, with the last byte of its addresses."""

        def change(spec: LinkStatusSpec) -> None:
            spec.type = enums.LINK_ETHER
            spec.hardware_addr = bytes((2, 0, 0, 0, 0, last))
            if permanent:
                spec.permanent_addr = bytes((2, 0, 0, 0, 0, permanent))

        await modify(self.state, kinds.LINK_STATUS, name, change)

    async def addresses(self) -> list[str]:
        """The links of the platform's addresses."""
        spec = (await self.state.get(*ids.PLATFORM_CONFIG)).spec
        return [address.link_name for address in spec.addresses]


async def test_without_an_argument_there_is_nothing(tmp_path: Path) -> None:
    for cmdline in ("quiet", "talos.config=none", "talos.config="):
        assert await Machine(tmp_path, cmdline).load() == b""


async def test_the_config_of_a_volume(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "talos.config=metal-iso", files={"config.yaml": b"text"})
    await machine.attach("metal-iso")
    assert await machine.load() == b"text"
    assert machine.reported == []


async def test_a_volume_may_come_late(tmp_path: Path, autojump_clock: object) -> None:
    del autojump_clock
    machine = Machine(tmp_path, "talos.config=metal-iso", files={"config.yaml": b"text"})
    async with trio.open_nursery() as nursery:

        async def come() -> None:
            await trio.sleep(200)
            await machine.attach("METAL-ISO", "vfat")

        nursery.start_soon(come)
        assert await machine.load() == b"text"
    (line,) = machine.reported
    assert "metal-iso" in line


async def test_a_nocloud_seed(tmp_path: Path) -> None:
    files = {"user-data": b"text", "meta-data": b"local-hostname: node\n"}
    machine = Machine(tmp_path, "talos.platform=nocloud", "nocloud", files=files)
    await machine.attach("CIDATA", "vfat")
    assert await machine.load() == b"text"
    spec = (await machine.state.get(*ids.PLATFORM_CONFIG)).spec
    assert [one.hostname for one in spec.hostnames] == ["node"]


async def test_a_seed_for_cloud_init_is_refused(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "", "nocloud", files={"user-data": b"#cloud-config\n{}\n"})
    await machine.attach("cidata")
    with pytest.RaisesGroup(pytest.RaisesExc(UserError, match="cloud-init")):
        await machine.load()


def seeded(folder: Path) -> Machine:
    """A machine with a seed that describes the network."""
    files = {"user-data": b"text", "network-config": NETWORK}
    return Machine(folder, "talos.platform=nocloud", "nocloud", files=files)


async def test_a_seed_names_cards_that_come_late(tmp_path: Path) -> None:
    state = WatchedState()
    machine = seeded(tmp_path)
    machine.state = state
    await machine.attach("cidata")
    await machine.show_card("enp0s3", 1)
    async with trio.open_nursery() as nursery:

        async def come() -> None:
            await state.watched.wait()
            await trio.testing.wait_all_tasks_blocked()
            await machine.show_card("enp0s9", 7)
            await machine.show_card("enp0s4", 2)

        nursery.start_soon(come)
        assert await machine.load() == b"text"
        nursery.cancel_scope.cancel()
    assert await machine.addresses() == ["enp0s3", "enp0s4"]
    assert machine.warned == []


async def test_a_card_that_does_not_come_is_named_and_the_rest_configured(
    tmp_path: Path, autojump_clock: object
) -> None:
    del autojump_clock
    machine = seeded(tmp_path)
    await machine.attach("cidata")
    await machine.show_card("enp0s4", 2)
    assert await machine.load() == b"text"
    assert await machine.addresses() == ["a", "enp0s4"]
    (line,) = machine.warned
    assert "02:00:00:00:00:01" in line
    assert machine.reported == []


async def test_a_card_is_configured_whenever_it_appears(tmp_path: Path, autojump_clock: object) -> None:
    del autojump_clock
    machine = seeded(tmp_path)
    await machine.attach("cidata")
    async with trio.open_nursery() as background:
        assert await machine.load_with(background) == b"text"
        assert await machine.addresses() == ["a", "b"]
        await trio.sleep(3600)
        await machine.show_card("enp0s4", 2)
        await trio.testing.wait_all_tasks_blocked()
        assert await machine.addresses() == ["a", "enp0s4"]
        await machine.show_card("enp0s3", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert await machine.addresses() == ["enp0s3", "enp0s4"]
        # Nothing is left to wait for.
        assert not background.child_tasks
    assert len(machine.warned) == 2


async def test_cards_of_a_bond_are_recognized_by_their_own_addresses(tmp_path: Path) -> None:
    machine = seeded(tmp_path)
    await machine.attach("cidata")
    await machine.show_card("enp0s3", 1, permanent=1)
    await machine.show_card("enp0s4", 1, permanent=2)
    assert await machine.load() == b"text"
    assert await machine.addresses() == ["enp0s3", "enp0s4"]


async def test_a_mistake_in_the_network_leaves_the_config(tmp_path: Path) -> None:
    machine = seeded(tmp_path)
    machine.files["network-config"] = b"version: 3\n"
    await machine.attach("cidata")
    assert await machine.load() == b"text"
    assert await machine.addresses() == []
    (line,) = machine.warned
    assert "version" in line
    assert "ignored" in line
    assert machine.reported == []
