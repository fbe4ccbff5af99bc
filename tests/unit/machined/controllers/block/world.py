"""A machine with one disk in memory, for the tests of the controllers of volumes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import override

import trio
from tests.unit.disks.volumes.disks import DISK, MemoryBlocks, MemoryCrypt
from tests.unit.machined.controllers.block.tpms import MemoryTpm

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.disks.volumes.folders import SystemFolders
from talos.disks.volumes.requests import create_lifecycle
from talos.disks.volumes.scrubber import Scrubber
from talos.machined.controllers.block.diagnostics import VolumeDiagnosticsController
from talos.machined.controllers.block.system_disk import SystemDiskController
from talos.machined.controllers.block.volume_config import VolumeConfigController
from talos.machined.controllers.block.volume_manager import VolumeManagerController
from talos.machined.controllers.block.volume_settler import VolumeContext
from talos.machined.node.key_requests import KeyRequests
from talos.machined.node.meta_store import MetaStore
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.state import EventType
from talos.system.block.scrub import Findings
from talos.system.logging import Log
from talos.testing.mounts import MemoryMounts
from talos.upgrade.slots.open_keys import OpenKey, OpenKeys

CONFIG = b"""
version: v1alpha1
machine:
  type: worker
  token: abc
"""


class MemoryMeta(MetaStore):
    """META without a disk."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[int, bytes] = {}

    @override
    async def wait_until_located(self) -> None:
        await trio.lowlevel.checkpoint()

    @property
    @override
    def values(self) -> Mapping[int, bytes]:
        return dict(self.written)

    @override
    async def set(self, key: int, value: bytes, *, reserved: Mapping[int, int] | None = None) -> None:
        await trio.lowlevel.checkpoint()
        self.written[key] = value

    @override
    async def delete(self, key: int) -> bool:
        await trio.lowlevel.checkpoint()
        return self.written.pop(key, None) is not None


@dataclass
class MemoryFolders(SystemFolders):
    """The system's folders: those that are ``used`` already, and the volumes in which they were made."""

    used: set[str] = field(default_factory=set[str])
    made: list[str] = field(default_factory=list[str])

    @override
    def is_used(self, path: str) -> bool:
        return path in self.used

    @override
    def make(self, volume: str) -> None:
        self.made.append(volume)


@dataclass
class World:
    """A machine with one disk."""

    blocks: MemoryBlocks = field(default_factory=MemoryBlocks)
    mounts: MemoryMounts = field(default_factory=MemoryMounts)
    state: MemoryState = field(default_factory=MemoryState)
    lines: list[str] = field(default_factory=list[str])
    folders: list[str] = field(default_factory=list[str])
    system_folders: MemoryFolders = field(default_factory=MemoryFolders)
    refreshed: int = 0
    keys: KeyRequests = field(default_factory=KeyRequests)
    tpm: MemoryTpm = field(default_factory=MemoryTpm)
    open_keys: OpenKeys = field(default_factory=dict[str, OpenKey])
    scrubber: Scrubber = field(default_factory=lambda: Scrubber(lambda _target, _check: Findings()))
    meta: MemoryMeta = field(default_factory=MemoryMeta)
    crypt: MemoryCrypt = field(default_factory=lambda: MemoryCrypt(MemoryBlocks()))

    def __post_init__(self) -> None:
        self.crypt.blocks = self.blocks

    @property
    def log(self) -> Log:
        return Log(write=self.lines.append)

    @asynccontextmanager
    async def run(self, *, has_partitions: bool = True) -> AsyncGenerator[None]:
        async def refresh() -> None:
            await trio.lowlevel.checkpoint()
            self.refreshed += 1

        context = VolumeContext(
            state=self.state,
            blocks=self.blocks,
            mounts=self.mounts,
            refresh=refresh,
            make_folder=lambda path, mode: self.folders.append(f"{path} {mode:o}"),
            folders=self.system_folders,
            devices=self.crypt,
            meta=self.meta,
            keys=self.keys,
            open_keys=self.open_keys,
            tpm=self.tpm,
            scrubber=self.scrubber,
            log=self.log,
        )
        controllers = [
            VolumeConfigController(has_partitions=has_partitions),
            SystemDiskController(Log()),
            VolumeManagerController(context),
            VolumeDiagnosticsController(),
        ]
        await create_lifecycle(self.state)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_controllers, self.state, controllers)
            yield
            nursery.cancel_scope.cancel()

    async def discover(self, *, installed: bool = True) -> None:
        """What udevd writes at the end of its first look."""

        if installed:
            self.blocks.install()
            await self.discover_meta()

        def ready(spec: object) -> None:
            spec.ready = True  # pyright: ignore[reportAttributeAccessIssue]

        await modify(self.state, *ids.DEVICES_STATUS, ready)
        await modify(self.state, *ids.META_LOAD, lambda spec: setattr(spec, "done", True))

    async def discover_meta(self) -> None:
        """What udevd writes of META, which marks the system disk."""

        def change(spec: block_pb2.DiscoveredVolumeSpec) -> None:
            spec.name = "talosmeta"
            spec.partition_label = "META"
            spec.parent = "vda"
            spec.parent_dev_path = DISK

        await modify(self.state, kinds.DISCOVERED_VOLUME, "vda4", change)

    async def add_disk(self) -> None:
        """What udevd writes of the disk itself."""
        await modify(self.state, kinds.DISK, "vda", lambda spec: setattr(spec, "dev_path", DISK))

    async def wait_until_gone(self, volume: str) -> None:
        async with self.state.watch(kinds.VOLUME_STATUS, volume) as events:
            async for batch in events:
                if any(event.type is EventType.DESTROYED for event in batch):
                    return

    async def wait(self, volume: str, phase: enums.BlockVolumePhase) -> block_pb2.VolumeStatusSpec:
        found = await wait_for(
            self.state, kinds.VOLUME_STATUS, volume, lambda status: status.spec.phase == phase
        )
        return found.spec
