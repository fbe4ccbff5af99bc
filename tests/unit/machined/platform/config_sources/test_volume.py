"""Volumes that are attached to provide a config."""

from pathlib import Path

import pytest
from tests.unit.machined.platform.machine import Machine

from talos.config.read.tree import MAX_BYTES
from talos.machined.platform.config_sources.volume import VolumeSource
from talos.system.errors import UserError


async def attach(machine: Machine, label: str, filesystem: str) -> VolumeSource:
    await machine.attach(label, filesystem)
    place = machine.folder / "place"
    return VolumeSource(state=machine.state, mounts=machine.mounts, report=print, place=place)


async def test_a_volume_is_found_by_its_label(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {"a": b"1", "b": b"2"})
    volume = await attach(machine, "CIDATA", "vfat")
    assert await volume.load("cidata", ("a", "c")) == {"a": b"1"}
    assert machine.mounts.list() == []


async def test_a_volume_is_found_by_its_filesystem(tmp_path: Path) -> None:
    volume = await attach(Machine(tmp_path, {"a": b"1"}), "rd_rdfe_stable", "udf")
    assert await volume.load("", ("a",), ("udf",)) == {"a": b"1"}


async def test_a_file_has_bounds(tmp_path: Path) -> None:
    volume = await attach(Machine(tmp_path, {"a": b"1" * (MAX_BYTES + 1)}), "a", "vfat")
    with pytest.raises(UserError, match="a: it has more than"):
        await volume.load("a", ("a",))
