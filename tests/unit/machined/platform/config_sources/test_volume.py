"""Volumes that are attached to provide a config."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import override

import pytest

from talos.api.definitions.block_pb2 import DiscoveredVolumeSpec
from talos.machined.platform.config_sources.volume import MAX_BYTES, VolumeSource
from talos.resource import ids, kinds
from talos.resource.changes import modify, put
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts


@dataclass
class Disc(MemoryMounts):
    """Shows its files where it is mounted."""

    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    @override
    def mount(self, point: MountPoint) -> None:
        super().mount(point)
        for name, data in self.files.items():
            Path(point.target, name).write_bytes(data)

    @override
    def unmount(self, target: str, *, lazy: bool = False) -> None:
        super().unmount(target, lazy=lazy)
        for name in self.files:
            Path(target, name).unlink()


async def make_volume(
    place: Path, filesystem: str, files: Mapping[str, bytes], label: str = "rd_rdfe_stable"
) -> VolumeSource:
    """A volume of a machine that has no other."""
    state = MemoryState()
    await modify(state, *ids.DEVICES_STATUS, lambda spec: setattr(spec, "ready", True))
    spec = DiscoveredVolumeSpec(name=filesystem, label=label, dev_path="/dev/sr0")
    await put(state, kinds.DISCOVERED_VOLUME, "sr0", spec)
    return VolumeSource(state=state, mounts=Disc(files=files), report=print, place=place)


async def test_a_volume_is_found_by_its_label(tmp_path: Path) -> None:
    volume = await make_volume(tmp_path, "vfat", {"a": b"1", "b": b"2"}, "CIDATA")
    assert await volume.load("cidata", ("a", "c")) == {"a": b"1"}
    assert volume.mounts.list() == []


async def test_a_volume_is_found_by_its_filesystem(tmp_path: Path) -> None:
    volume = await make_volume(tmp_path, "udf", {"a": b"1"})
    assert await volume.load("", ("a",), ("udf",)) == {"a": b"1"}


async def test_a_file_has_bounds(tmp_path: Path) -> None:
    volume = await make_volume(tmp_path, "udf", {"a": b"1" * (MAX_BYTES + 1)})
    with pytest.raises(UserError, match="a: it has more than"):
        await volume.load("", ("a",), ("udf",))
