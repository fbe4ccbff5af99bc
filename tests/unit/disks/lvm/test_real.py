"""The same by lvm itself on loop devices; without the kernel's device mapper, which not every machine has."""

import os
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.unit.system.block.tools import run_tool

from talos.disks.lvm.provide import LvmProvider
from talos.disks.lvm.specs import LvmSpecs, WantedGroup
from talos.disks.lvm.status import make_group_status, make_logical_status, make_physical_status
from talos.disks.volumes.blocks import KernelBlocks
from talos.system.block import partitions
from talos.system.block.lvm import LogicalVolume, Lvm
from talos.system.logging import Log
from talos.system.process import Finished, run_command

pytestmark = pytest.mark.root
CONFIG = Path(__file__).parents[4] / "modules/rootfs/files/etc/lvm/lvm.conf"
SIZE = 64 << 20
WITHOUT_MAPPER = ("--driverloaded", "n")
"""Only what lvm writes to the disks."""
GROUP = "talos-unit-pool"


async def run(argv: Sequence[str], stdin: bytes) -> Finished:
    inactive = ("-an", "-Zn", "-Wn") if argv[1] == "lvcreate" else ()
    return await run_tool([*argv, *WITHOUT_MAPPER, *inactive], stdin)


@asynccontextmanager
async def make_disks(folder: Path, count: int) -> AsyncGenerator[list[str]]:
    disks: list[str] = []
    try:
        for number in range(count):
            image = folder / str(number)
            image.touch()
            await trio.to_thread.run_sync(partial(os.truncate, image, SIZE))
            disks.append(run_command(["losetup", "--find", "--show", str(image)]).stdout.strip())
        yield disks
    finally:
        for disk in disks:
            run_command(["losetup", "--detach", disk])


async def test_from_blank_devices_to_a_volume_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lvm").mkdir()
    shutil.copy(CONFIG, tmp_path / "lvm")
    monkeypatch.setenv("LVM_SYSTEM_DIR", str(tmp_path / "lvm"))
    monkeypatch.setenv("LVM_SUPPRESS_FD_WARNINGS", "1")
    lvm = Lvm(run, lambda _: None)
    provider = LvmProvider(lvm, KernelBlocks(run_tool).read_head, Log(write=lambda _: None))
    async with make_disks(tmp_path, 3) as disks:
        await partitions.make_filesystem(run_tool, disks[2], "vfat", "LEFT")

        async def provide(percent: int, *devices: str) -> list[str]:
            specs = LvmSpecs(
                groups=(WantedGroup(name=GROUP, devices=devices),),
                logical=(LogicalVolume(group=GROUP, name="data", percent=percent),),
            )
            provided = await provider.provide(specs, await lvm.report())
            return [problem.message for problem in provided.problems]

        assert await provide(50, disks[0]) == []
        assert await provide(100, *disks[:2]) == []
        report = await lvm.report()
        (group,) = [make_group_status(row) for row in report.find_groups(GROUP)]
        assert (group.pv_count, group.lv_count, group.free_extent_count) == ("2", "1", "0")
        assert make_physical_status(report.find_physical(disks[1]) or {}).vg_name == GROUP
        volume = make_logical_status(report.find_logical(GROUP, "data") or {})
        assert (volume.layout, volume.size) == ("linear", group.size)
        (problem,) = await provide(100, *disks)
        assert "holds unrecognised data" in problem
        assert await provide(100, *disks[:2]) == []
        await lvm.remove_logical(GROUP, "data")
        await lvm.remove_group(GROUP)
        for disk in disks[:2]:
            await lvm.remove_physical(disk)
        assert not (await lvm.report()).find_physical(disks[0])
