"""The devices that early init maps of the system's images, with dm-verity; every block of them, read once."""

import os
from pathlib import Path

import trio

CHUNK = 256 << 10
"""Bytes that are read at once: a millisecond of hashing, or 20 on an emulated processor."""


def find_image_devices(sysfs: Path = Path("/sys"), devices: Path = Path("/dev")) -> list[Path]:
    """The mapped devices of images: they are read-only and lie upon loop devices, which volumes do not."""
    found: list[Path] = []
    for folder in sorted(sysfs.glob("block/dm-*")):
        below = [slave.name for slave in folder.glob("slaves/*")]
        is_readonly = (folder / "ro").read_text().strip() == "1"
        if is_readonly and below and all(name.startswith("loop") for name in below):
            found.append(devices / folder.name)
    return found


async def read_whole(device: Path) -> int:
    """Read every block of a device, so that the kernel compares it; the number of bytes.

    The kernel hashes at a high priority, so after each chunk comes a pause that is as long as the chunk took.
    Nothing of it stays in memory. OSError.
    """
    file = await trio.to_thread.run_sync(os.open, device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        place = 0
        while True:
            began = trio.current_time()
            count = len(await trio.to_thread.run_sync(os.pread, file, CHUNK, place))
            if not count:
                return place
            os.posix_fadvise(file, place, count, os.POSIX_FADV_DONTNEED)
            place += count
            await trio.sleep(trio.current_time() - began)
    finally:
        os.close(file)


async def read_images() -> int:
    """Read all images of the running system once; the number of bytes. OSError."""
    return sum([await read_whole(device) for device in await trio.to_thread.run_sync(find_image_devices)])
