"""The phases of a reset, on files in place of disks."""

from pathlib import Path

import pytest
import trio

from talos.api.definitions import block_pb2
from talos.disks.disk import Content, Disk
from talos.disks.reset import Erasure, ResetPlan
from talos.machined.boot.phases.reset import make_reset, unmount_disk
from talos.system.logging import Log
from talos.system.mounts import MountPoint
from talos.testing.mounts import MemoryMounts

MIB = 1 << 20


LABELS = ("META", "STATE", "EPHEMERAL")


def make_file(path: Path, size: int = 40 * MIB) -> Path:
    path.write_bytes(b"\xaa" * size)
    return path


def make_disk(path: Path) -> Disk:
    contents = tuple(
        Content(name=f"vda{n}", label=label, filesystem="", offset=n * 8 * MIB, size=4 * MIB)
        for n, label in enumerate(LABELS, 1)
    )
    return Disk(id="vda", spec=block_pb2.DiskSpec(dev_path=str(path)), contents=contents)


def is_zero(path: Path, offset: int, size: int = MIB) -> bool:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size) == bytes(size)


async def test_the_phases_of_a_reset(tmp_path: Path) -> None:
    disk = make_disk(make_file(tmp_path / "vda"))
    user = make_file(tmp_path / "vdb")
    mounts = MemoryMounts()
    mounts.mount(MountPoint(source=f"{tmp_path}/vda3", target="/system/state", type="xfs"))
    mounts.mount(MountPoint(source=f"{tmp_path}/vdb1", target="/var/mnt/data", type="xfs"))
    forgotten: list[bool] = []

    async def forget() -> None:
        await trio.lowlevel.checkpoint()
        forgotten.append(True)

    log = Log(write=lambda _: None)
    plan = ResetPlan(erasures=(Erasure(disk=disk),), user_disks=(str(user),))
    phases = make_reset(plan, mounts, log, forget)
    assert [phase.name for phase in phases] == ["forceCleanup", "reset", "resetUserDisks"]
    for phase in phases:
        for task in phase.tasks:
            await task.run()
    assert [mount.target for mount in mounts.list()] == ["/var/mnt/data"]
    assert is_zero(tmp_path / "vda", 0)
    assert is_zero(user, 0)
    assert not forgotten, "META is erased with all of the disk"
    state = [part for part in disk.contents if part.label == "STATE"]
    plan = ResetPlan(erasures=(Erasure(disk=disk, parts=tuple(state)),))
    phases = make_reset(plan, mounts, log, forget)
    assert [phase.name for phase in phases] == ["forceCleanup", "resetSpec", "resetMeta"]
    await phases[-1].tasks[0].run()
    assert forgotten


@pytest.mark.parametrize(
    ("source", "unmounted"), [("/dev/nvme0n1p3", True), ("/dev/nvme0n11", False), ("tmpfs", False)]
)
def test_which_mounts_are_on_a_disk(source: str, unmounted: bool) -> None:
    mounts = MemoryMounts()
    mounts.mount(MountPoint(source=source, target="/x", type="xfs"))
    unmount_disk("/dev/nvme0n1", mounts, Log(write=lambda _: None))
    assert (not mounts.list()) is unmounted
