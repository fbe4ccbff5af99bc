"""Configs on the command line, on a volume, in a nocloud seed."""

import base64
import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from talos.machined.node.resources import describe_machine
from talos.machined.platform.config_sources.inline import decode_inline
from talos.machined.platform.config_sources.nocloud import find_seed, parse_hostname
from talos.machined.platform.config_sources.platform import PlatformSource
from talos.machined.platform.config_sources.volume import VolumeSource
from talos.machined.platform.config_sources.web import WebSource
from talos.machined.platform.platform import MetalPlatform
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.files import KernelFiles
from talos.system.mounts import MountPoint
from talos.system.proc.cmdline import parse_cmdline
from talos.system.zstd import LIBRARY, ZstdError, unpack_zstd
from talos.testing.mounts import MemoryMounts


def pack(data: bytes) -> bytes:
    library = ctypes.CDLL(LIBRARY)
    room = ctypes.create_string_buffer(len(data) + 1024)
    library.ZSTD_compress.restype = ctypes.c_size_t
    size = library.ZSTD_compress(
        room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)), ctypes.c_int(3)
    )
    return room.raw[:size]


def test_zstd_is_unpacked_within_limits() -> None:
    data = b"abc" * 200_000
    packed = pack(data)
    assert unpack_zstd(packed, limit=len(data)) == data
    assert unpack_zstd(packed + pack(b"more"), limit=len(data) + 4) == data + b"more"
    for damaged in (b"", b"nonsense", packed[:-5], packed[:4]):
        with pytest.raises(ZstdError):
            unpack_zstd(damaged, limit=len(data))
    with pytest.raises(ZstdError, match="more than"):
        unpack_zstd(packed, limit=len(data) - 1)


def test_a_config_on_the_command_line_may_be_in_pieces() -> None:
    text = base64.b64encode(pack(b"version: v1alpha1\n")).decode()
    whole = parse_cmdline(f"a talos.config.inline={text[:10]} b=c talos.config.inline={text[10:]}")
    assert decode_inline(whole, "talos.config.inline") == b"version: v1alpha1\n"
    assert decode_inline(whole, "talos.config.early") == b""
    for wrong in ("%%", "abcd", text[:16]):
        with pytest.raises(UserError, match=r"talos\.config\.early"):
            decode_inline(parse_cmdline(f"talos.config.early={wrong}"), "talos.config.early")


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

    async def load(self) -> bytes:
        platform = MetalPlatform(arguments=parse_cmdline(self.cmdline), name=self.name)
        await describe_machine(
            self.state, files=KernelFiles(), node_id="a", cmdline="", platform=platform.load_network()
        )
        mounts = Volumes(files=self.files)
        source = PlatformSource(
            platform=platform,
            state=self.state,
            files=KernelFiles(),
            web=WebSource(state=self.state, files=KernelFiles(), report=self.reported.append),
            volume=VolumeSource(
                state=self.state, mounts=mounts, report=self.reported.append, place=self.folder / "place"
            ),
        )
        text = await source.load()
        assert mounts.mounts == []
        return text

    async def attach(self, label: str, filesystem: str = "iso9660") -> None:
        def change(spec: Any) -> None:
            spec.label, spec.name, spec.dev_path = label, filesystem, "/dev/sr0"

        await modify(self.state, kinds.DISCOVERED_VOLUME, "sr0", change)
        await modify(self.state, *ids.DEVICES_STATUS, lambda spec: setattr(spec, "ready", True))


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
    with pytest.raises(UserError, match="cloud-init"):
        await machine.load()


def test_a_seed_may_be_somewhere_in_the_web() -> None:
    arguments = parse_cmdline("a ds=nocloud;s=http://10.0.2.2/seed/;h=node b")
    assert find_seed(KernelFiles(), arguments) == {"s": "http://10.0.2.2/seed/", "h": "node"}
    assert find_seed(KernelFiles(), parse_cmdline("a b")) == {}
    assert parse_hostname(b"") == ""
    with pytest.raises(UserError, match="meta-data"):
        parse_hostname(b"a: [")
    with pytest.raises(UserError, match="meta-data"):
        parse_hostname(b"text")
