"""Configs from where a platform keeps them: a volume, a nocloud seed."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from tests.unit.machined.platform.machine import Machine

from talos.machined.boot.cloud_network import make_source
from talos.machined.platform.config_sources.platform import PlatformSource
from talos.machined.platform.config_sources.web import WebSource
from talos.machined.platform.platform import MetalPlatform
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.proc.cmdline import parse_cmdline


@dataclass
class Configured(Machine):
    """A machine that looks for its config."""

    cmdline: str = ""
    name: str = "metal"
    reported: list[str] = field(default_factory=list[str])

    async def load(self) -> bytes:
        platform = MetalPlatform(arguments=parse_cmdline(self.cmdline), name=self.name)
        web = WebSource(state=self.state, files=KernelFiles(), report=self.reported.append, inform=print)
        source = make_source(
            state=self.state,
            files=KernelFiles(),
            mounts=self.mounts,
            arguments=platform.arguments,
            report=self.reported.append,
        )
        text = await PlatformSource(platform=platform, web=web, cloud=self.place_volume(source)).load()
        assert self.mounts.mounts == []
        return text


async def test_without_an_argument_there_is_nothing(tmp_path: Path) -> None:
    for cmdline in ("quiet", "talos.config=none", "talos.config="):
        assert await Configured(tmp_path, cmdline=cmdline).load() == b""


async def test_the_config_of_a_volume(tmp_path: Path) -> None:
    machine = Configured(tmp_path, {"config.yaml": b"text"}, cmdline="talos.config=metal-iso")
    await machine.attach("metal-iso")
    assert await machine.load() == b"text"
    assert machine.reported == []


async def test_a_volume_may_come_late(tmp_path: Path, autojump_clock: object) -> None:
    del autojump_clock
    machine = Configured(tmp_path, {"config.yaml": b"text"}, cmdline="talos.config=metal-iso")
    async with trio.open_nursery() as nursery:

        async def come() -> None:
            await trio.sleep(200)
            await machine.attach("METAL-ISO", "vfat")

        nursery.start_soon(come)
        assert await machine.load() == b"text"
    (line,) = machine.reported
    assert "metal-iso" in line


async def test_a_nocloud_seed(tmp_path: Path) -> None:
    machine = Configured(tmp_path, {"user-data": b"text"}, name="nocloud")
    await machine.attach("CIDATA", "vfat")
    assert await machine.load() == b"text"


async def test_a_seed_for_cloud_init_is_refused(tmp_path: Path) -> None:
    machine = Configured(tmp_path, {"user-data": b"#cloud-config\n{}\n"}, name="nocloud")
    await machine.attach("cidata")
    with pytest.raises(UserError, match="cloud-init"):
        await machine.load()
