"""With the kernel itself: loop devices, their events, and what is found on them."""

import fcntl
import os
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from talos.system.block.ata import identify
from talos.system.block.sysfs import Sysfs
from talos.system.logging import Log
from talos.system.net.interfaces import rename_link
from talos.system.net.uevents import open_uevents
from talos.udevd.blocks import probe_safely
from talos.udevd.devices import Devices, Ports

# <linux/loop.h>
LOOP_SET_FD = 0x4C00
LOOP_CLR_FD = 0x4C01
LOOP_CTL_GET_FREE = 0x4C82


@pytest.fixture
def loop(tmp_path: Path) -> Generator[str]:
    """A loop device on a file that holds an empty swap area, which is the easiest signature to write."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(4 << 20)
        file.seek(1024)
        file.write((1).to_bytes(4, "little") + (1023).to_bytes(4, "little") + bytes(4))
        file.write(bytes(range(16)) + b"scratch\0".ljust(16, b"\0"))
        file.seek(4086)
        file.write(b"SWAPSPACE2")
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
    finally:
        os.close(control)
    device = os.open(f"/dev/loop{number}", os.O_RDWR)
    backing = os.open(image, os.O_RDWR)
    fcntl.ioctl(device, LOOP_SET_FD, backing)
    try:
        yield f"loop{number}"
    finally:
        with suppress(OSError):
            fcntl.ioctl(device, LOOP_CLR_FD)
        os.close(backing)
        os.close(device)


def make_devices(dev: Path) -> Devices:
    return Devices(
        Ports(
            sysfs=Sysfs(),
            dev=dev,
            prober=partial(probe_safely, Path("/dev")),
            identify=identify,
            rename=lambda _old, _new: "a test renames nothing",
            set_owner=lambda _path, _uid, _gid: None,
            log=Log(write=lambda _: None),
        )
    )


@pytest.mark.root
def test_a_loop_device_is_read(loop: str, tmp_path: Path) -> None:
    devices = make_devices(tmp_path)
    devices.scan_first()
    block = devices.blocks[loop]
    assert (block.size, block.content.name, block.content.label) == (4 << 20, "swap", "scratch")
    assert (tmp_path / "disk/by-label/scratch").readlink() == Path(f"../../{loop}")


@pytest.mark.root
async def test_uevents_of_the_kernel(loop: str, tmp_path: Path) -> None:
    devices = make_devices(tmp_path)
    async with open_uevents() as uevents:
        path = await trio.Path(f"/sys/class/block/{loop}").resolve()
        await (path / "uevent").write_text("change")
        while True:
            events = await uevents.receive()
            if any(event.path == f"/{path.relative_to('/sys')}" for event in events):
                break
    assert devices.handle(events)
    assert loop in devices.blocks


def test_an_interface_that_is_not_there() -> None:
    assert rename_link("nosuchlink0", "other0") != ""


def test_what_is_no_ata_disk(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert identify("file", tmp_path) == b""
    assert identify("nothing", tmp_path) == b""
